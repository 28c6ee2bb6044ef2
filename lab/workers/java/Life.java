import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * The life of a Java worker: the flags, commands and journal that the Python ones have (loop.py, flags.py).
 * With `--each` one process has a client in each of many groups, each in a thread; all obey every command.
 */
abstract class Life {
    private static final long LIFETIME_UNSET = 0;
    private static final long APART_MS = 270;

    private static final List<Life> HERD = new CopyOnWriteArrayList<>();
    private static final CountDownLatch CLOSING = new CountDownLatch(1);
    private static final CountDownLatch CLOSED = new CountDownLatch(1);

    private final Map<String, String> flags = new HashMap<>();
    // About when the last poll began (ms): from then on the poll interval counts.
    private long polledAt = System.currentTimeMillis();
    private final ConcurrentLinkedQueue<String[]> commands = new ConcurrentLinkedQueue<>();

    /** Makes the worker of one group. */
    interface Maker {
        Life make(String[] arguments) throws Exception;
    }

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

    /** Run a worker in every group that the flags name, until all have closed. */
    static void live(String[] arguments, Maker maker) throws Exception {
        Thread reader = new Thread(Life::readCommands);
        reader.setDaemon(true);
        reader.start();
        Runtime.getRuntime().addShutdownHook(new Thread(Life::closeFromOutside));
        List<Thread> threads = new ArrayList<>();
        for (String[] one : each(arguments)) {
            Thread thread = new Thread(() -> liveOne(one, maker));
            thread.start();
            threads.add(thread);
            CLOSING.await(APART_MS, TimeUnit.MILLISECONDS);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        CLOSED.countDown();
        System.exit(0);
    }

    /** The flags of every group's client; `--each` says how those of a herd differ. */
    private static List<String[]> each(String[] arguments) {
        int at = Arrays.asList(arguments).indexOf("--each");
        if (at < 0) {
            return Collections.singletonList(arguments);
        }
        List<String[]> all = new ArrayList<>();
        for (String one : arguments[at + 1].split(";")) {
            List<String> own = new ArrayList<>(Arrays.asList(arguments));
            for (String pair : one.split(" ")) {
                int mark = pair.indexOf('=');
                own.add("--" + pair.substring(0, mark));
                own.add(pair.substring(mark + 1));
            }
            all.add(own.toArray(new String[0]));
        }
        return all;
    }

    private static void liveOne(String[] arguments, Maker maker) {
        try {
            Life life = maker.make(arguments);
            HERD.add(life);
            life.run();
        } catch (Exception failed) {
            failed.printStackTrace();
            tell("error", "error", String.valueOf(failed));
        }
    }

    private void run() throws Exception {
        tell("started", "group", flags.get("group"), "client_id", flag("client-id", ""));
        long lifetime = (long) (Double.parseDouble(flag("lifetime-s", "0")) * 1e9);
        long start = System.nanoTime();
        begin();
        while (!isClosing() && (lifetime == LIFETIME_UNSET || System.nanoTime() - start < lifetime)) {
            String[] command = commands.poll();
            if (command != null) {
                follow(command);
            }
            polledAt = System.currentTimeMillis();
            turn();
        }
        tell("closing", "member", member());
        end();
        tell("closed");
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
        long grace = Long.parseLong(flag("heartbeat-ms", "1000"));
        if (!flag("instance-id", "").isEmpty()) {
            grace += Long.parseLong(flag("session-ms", "6000"));
        }
        tell("processing", "seconds", String.valueOf(seconds), "limit_ms", flag("poll-ms", "8000"),
            "polled", String.valueOf(polledAt), "grace_ms", String.valueOf(grace),
            "member", member(), "group", flags.get("group"));
    }

    final boolean isClosing() {
        return CLOSING.getCount() == 0;
    }

    final void pause(double seconds) throws InterruptedException {
        CLOSING.await((long) (seconds * 1000), TimeUnit.MILLISECONDS);
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
        if (!flag("fetch-ms", "0").equals("0")) {
            all.put("fetch.max.wait.ms", flag("fetch-ms", "0"));
        }
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

    private static void readCommands() {
        try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in))) {
            String text = input.readLine();
            while (text != null && !text.trim().equals("close")) {
                for (Life life : HERD) {
                    life.commands.add(text.trim().split("\\s+"));
                }
                text = input.readLine();
            }
        } catch (IOException gone) {
            tell("error", "error", "stdin: " + gone.getMessage());
        }
        CLOSING.countDown();
    }

    private static void closeFromOutside() {
        CLOSING.countDown();
        try {
            CLOSED.await(20, TimeUnit.SECONDS);
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }
}
