import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** The life of a Java worker: the flags, commands and journal that the Python ones have (loop.py). */
abstract class Life {
    private static final long LIFETIME_UNSET = 0;

    private final Map<String, String> flags = new HashMap<>();
    private final ConcurrentLinkedQueue<String[]> commands = new ConcurrentLinkedQueue<>();
    private final CountDownLatch closing = new CountDownLatch(1);
    private final CountDownLatch closed = new CountDownLatch(1);

    Life(String[] arguments) {
        for (int i = 0; i + 1 < arguments.length; i += 2) {
            flags.put(arguments[i].substring(2), arguments[i + 1]);
        }
    }

    /** Join whatever the worker joins. */
    abstract void begin() throws Exception;

    /** Do one round of work; about 200 ms where there is none. */
    abstract void turn() throws Exception;

    /** Obey a command that only this client knows; false if it knows none such. */
    abstract boolean obey(String[] command) throws Exception;

    /** The current member id, "" where the client does not tell it. */
    abstract String member();

    /** Leave and close. */
    abstract void end() throws Exception;

    final void live() throws Exception {
        Thread reader = new Thread(this::readCommands);
        reader.setDaemon(true);
        reader.start();
        Runtime.getRuntime().addShutdownHook(new Thread(this::closeFromOutside));
        tell("started", "group", flags.get("group"), "client_id", flag("client-id", ""));
        long lifetime = (long) (Double.parseDouble(flag("lifetime-s", "0")) * 1e9);
        long start = System.nanoTime();
        begin();
        while (!isClosing() && (lifetime == LIFETIME_UNSET || System.nanoTime() - start < lifetime)) {
            String[] command = commands.poll();
            if (command != null) {
                follow(command);
            }
            turn();
        }
        tell("closing", "member", member());
        end();
        tell("closed");
        closed.countDown();
        System.exit(0);
    }

    private void follow(String[] command) throws Exception {
        if (command[0].equals("stall")) {
            stall(Double.parseDouble(command[1]));
        } else if (!obey(command)) {
            tell("error", "error", "unknown command " + command[0]);
        }
        tell("obeyed", "command", String.join(" ", command));
    }

    void stall(double seconds) throws InterruptedException {
        tellStall(seconds);
        pause(seconds);
    }

    final void tellStall(double seconds) {
        tell("processing", "seconds", String.valueOf(seconds), "limit_ms", flag("poll-ms", "8000"),
            "member", member());
    }

    final boolean isClosing() {
        return closing.getCount() == 0;
    }

    final void pause(double seconds) throws InterruptedException {
        closing.await((long) (seconds * 1000), TimeUnit.MILLISECONDS);
    }

    final String flag(String name, String otherwise) {
        return flags.getOrDefault(name, otherwise);
    }

    /** The properties that every Java consumer of a group has. */
    final Properties common() {
        Properties all = new Properties();
        all.put("bootstrap.servers", flags.get("bootstrap"));
        all.put("group.id", flags.get("group"));
        all.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        all.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        all.put("metadata.max.age.ms", "5000");
        if (flags.containsKey("client-id")) {
            all.put("client.id", flags.get("client-id"));
        }
        return all;
    }

    final void told(String event, Collection<?> parts) {
        List<String> names = new ArrayList<>();
        parts.forEach(part -> names.add("\"" + part + "\""));
        names.sort(null);
        String list = "[" + String.join(", ", names) + "]";
        line("\"event\": \"" + event + "\", \"member\": \"" + member() + "\", \"partitions\": " + list);
    }

    static void tell(String event, String... pairs) {
        StringBuilder body = new StringBuilder("\"event\": \"" + event + "\"");
        for (int i = 0; i + 1 < pairs.length; i += 2) {
            String value = pairs[i + 1].replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ");
            body.append(", \"").append(pairs[i]).append("\": \"").append(value).append("\"");
        }
        line(body.toString());
    }

    private static synchronized void line(String body) {
        System.out.println("{\"at\": " + System.currentTimeMillis() + ", " + body + "}");
        System.out.flush();
    }

    private void readCommands() {
        try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in))) {
            String text = input.readLine();
            while (text != null && !text.trim().equals("close")) {
                commands.add(text.trim().split("\\s+"));
                text = input.readLine();
            }
        } catch (IOException gone) {
            tell("error", "error", "stdin: " + gone.getMessage());
        }
        closing.countDown();
    }

    private void closeFromOutside() {
        closing.countDown();
        try {
            closed.await(20, TimeUnit.SECONDS);
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }
}
