package org.example;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.auth.SaslExtensionsCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;

/** A login handler of somebody's own: tokens come from the file that the login line names, and hold for ten seconds. */
public final class TokenFile implements AuthenticateCallbackHandler {
  private Path file;

  @Override
  public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {
    file = Path.of((String) entries.get(0).getOptions().get("file"));
  }

  @Override
  public void handle(Callback[] callbacks) throws IOException, UnsupportedCallbackException {
    for (Callback callback : callbacks) {
      if (callback instanceof OAuthBearerTokenCallback) {
        ((OAuthBearerTokenCallback) callback).token(new Read(Files.readString(file).strip()));
      } else if (!(callback instanceof SaslExtensionsCallback)) {
        throw new UnsupportedCallbackException(callback);
      }
    }
  }

  @Override
  public void close() {}

  private static final class Read implements OAuthBearerToken {
    private final String value;
    private final long at = System.currentTimeMillis();

    Read(String value) {
      this.value = value;
    }

    @Override
    public String value() {
      return value;
    }

    @Override
    public Set<String> scope() {
      return Set.of();
    }

    @Override
    public long lifetimeMs() {
      return at + 10_000;
    }

    @Override
    public String principalName() {
      return "monitor";
    }

    @Override
    public Long startTimeMs() {
      return at;
    }
  }
}
