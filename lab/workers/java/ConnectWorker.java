import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.connect.cli.ConnectDistributed;
import org.apache.kafka.connect.runtime.Connect;

/**
 * A distributed Kafka Connect worker. `connector NAME TASKS` creates, or reconfigures, a sink that writes the
 * topics into a file; its tasks are a consumer group of their own, `connect-NAME`. `pause NAME` and `resume NAME`
 * do that to the sink. With `--mode apart` it has a
 * config topic of its own, as a worker of another cluster that was given this group id.
 */
public final class ConnectWorker extends Life {
    private final HttpClient http = HttpClient.newHttpClient();
    private final String address;
    private final Path folder;
    private Connect<?> connect;

    private ConnectWorker(String[] arguments) throws Exception {
        super(arguments);
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            this.address = "http://127.0.0.1:" + free.getLocalPort();
        }
        this.folder = Files.createTempDirectory(Path.of(""), "connect-").toAbsolutePath();
    }

    public static void main(String[] arguments) throws Exception {
        live(arguments, ConnectWorker::new);
    }

    private Map<String, String> properties() {
        Properties all = common();
        all.remove("key.deserializer");
        all.remove("value.deserializer");
        Map<String, String> found = new HashMap<>();
        all.forEach((key, value) -> found.put((String) key, (String) value));
        found.put("listeners", address);
        found.put("connect.protocol", flag("assignor", "sessioned"));
        found.put("session.timeout.ms", flag("session-ms", "6000"));
        found.put("heartbeat.interval.ms", flag("heartbeat-ms", "1000"));
        found.put("rebalance.timeout.ms", flag("poll-ms", "8000"));
        found.put("scheduled.rebalance.max.delay.ms", flag("delay-ms", "8000"));
        found.put("offset.flush.interval.ms", flag("commit-ms", "1000"));
        found.put("consumer.session.timeout.ms", flag("session-ms", "6000"));
        found.put("consumer.heartbeat.interval.ms", flag("heartbeat-ms", "1000"));
        found.put("consumer.max.poll.interval.ms", flag("poll-ms", "8000"));
        for (String kind : new String[] {"key", "value"}) {
            found.put(kind + ".converter", "org.apache.kafka.connect.converters.ByteArrayConverter");
        }
        for (String kind : new String[] {"config", "offset", "status"}) {
            String owner = flag("group", "");
            if (kind.equals("config") && flag("mode", "").equals("apart")) {
                owner = flag("client-id", owner);
            }
            found.put(kind + ".storage.topic", owner + ".connect-" + kind);
            found.put(kind + ".storage.replication.factor", "1");
        }
        found.put("offset.storage.partitions", "2");
        found.put("status.storage.partitions", "2");
        return found;
    }

    @Override
    void begin() {
        connect = new ConnectDistributed().startConnect(properties());
    }

    @Override
    void turn() throws InterruptedException {
        pause(0.2);
    }

    @Override
    boolean obey(String[] command) throws Exception {
        if (command[0].equals("pause") || command[0].equals("resume")) {
            send("/connectors/" + command[1] + "/" + command[0], "");
            return true;
        }
        if (!command[0].equals("connector")) {
            return false;
        }
        String body = "{\"connector.class\": \"org.apache.kafka.connect.file.FileStreamSinkConnector\", "
            + "\"topics\": \"" + flag("topics", "") + "\", \"tasks.max\": \"" + command[2] + "\", "
            + "\"file\": \"" + folder.resolve(command[1]) + "\"}";
        send("/connectors/" + command[1] + "/config", body);
        return true;
    }

    private void send(String path, String body) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(address + path))
            .header("Content-Type", "application/json").PUT(HttpRequest.BodyPublishers.ofString(body)).build();
        HttpResponse<String> answer = http.send(request, HttpResponse.BodyHandlers.ofString());
        tell("connector", "status", String.valueOf(answer.statusCode()), "body", answer.body());
    }

    @Override
    String member() {
        return "";
    }

    @Override
    void end() {
        connect.stop();
        connect.awaitStop();
    }
}
