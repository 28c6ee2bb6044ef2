import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/** A worker on the Java KafkaConsumer: same flags, commands and journal as the Python ones (loop.py). */
public final class ConsumerWorker {
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private final Map<String, String> flags;
    private final ConcurrentLinkedQueue<String[]> commands = new ConcurrentLinkedQueue<>();
    private final CountDownLatch closing = new CountDownLatch(1);
    private final CountDownLatch closed = new CountDownLatch(1);
    private final KafkaConsumer<byte[], byte[]> consumer;

    private ConsumerWorker(Map<String, String> flags) {
        this.flags = flags;
        this.consumer = new KafkaConsumer<>(properties());
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> flags = new HashMap<>();
        for (int i = 0; i + 1 < arguments.length; i += 2) {
            flags.put(arguments[i].substring(2), arguments[i + 1]);
        }
        new ConsumerWorker(flags).run();
        System.exit(0);
    }

    private String flag(String name, String otherwise) {
        return flags.getOrDefault(name, otherwise);
    }

    private Properties properties() {
        Properties all = new Properties();
        all.put("bootstrap.servers", flags.get("bootstrap"));
        all.put("group.id", flags.get("group"));
        all.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        all.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        all.put("enable.auto.commit", String.valueOf(flag("commit", "auto").equals("auto")));
        all.put("auto.commit.interval.ms", flag("commit-ms", "1000"));
        all.put("auto.offset.reset", "earliest");
        all.put("max.poll.interval.ms", flag("poll-ms", "8000"));
        all.put("metadata.max.age.ms", "5000");
        if (flags.containsKey("client-id")) {
            all.put("client.id", flags.get("client-id"));
        }
        if (flags.containsKey("instance-id")) {
            all.put("group.instance.id", flags.get("instance-id"));
        }
        if (flag("protocol", "classic").equals("consumer")) {
            all.put("group.protocol", "consumer");
            return all;
        }
        all.put("session.timeout.ms", flag("session-ms", "6000"));
        all.put("heartbeat.interval.ms", flag("heartbeat-ms", "1000"));
        all.put("partition.assignment.strategy", ASSIGNORS.get(flag("assignor", "range")));
        return all;
    }

    private void run() throws Exception {
        Thread reader = new Thread(this::readCommands);
        reader.setDaemon(true);
        reader.start();
        Runtime.getRuntime().addShutdownHook(new Thread(this::closeFromOutside));
        tell("started", "group", flags.get("group"), "client_id", flag("client-id", ""));
        long lifetime = (long) (Double.parseDouble(flag("lifetime-s", "0")) * 1e9);
        long start = System.nanoTime();
        subscribe(flags.get("topics"));
        while (closing.getCount() > 0 && (lifetime == 0 || System.nanoTime() - start < lifetime)) {
            String[] command = commands.poll();
            if (command != null) {
                obey(command);
            }
            turn();
        }
        tell("closing", "member", member());
        consumer.close();
        tell("closed");
        closed.countDown();
    }

    private void turn() throws InterruptedException {
        int records = consumer.subscription().isEmpty() ? idle() : consumer.poll(Duration.ofMillis(200)).count();
        if (records == 0) {
            return;
        }
        double processing = Double.parseDouble(flag("processing-s", "0"));
        if (processing > 0) {
            closing.await((long) (processing * 1000), TimeUnit.MILLISECONDS);
        }
        if (flag("commit", "auto").equals("manual")) {
            commit();
        }
    }

    private int idle() throws InterruptedException {
        closing.await(200, TimeUnit.MILLISECONDS);
        return 0;
    }

    private void obey(String[] command) throws InterruptedException {
        switch (command[0]) {
            case "stall" -> stall(Double.parseDouble(command[1]));
            case "subscribe" -> subscribe(command[1]);
            case "unsubscribe" -> consumer.unsubscribe();
            case "commit" -> commit();
            default -> tell("error", "error", "unknown command " + command[0]);
        }
        tell("obeyed", "command", String.join(" ", command));
    }

    private void stall(double seconds) throws InterruptedException {
        tell("processing", "seconds", String.valueOf(seconds), "limit_ms", flag("poll-ms", "8000"),
            "member", member());
        closing.await((long) (seconds * 1000), TimeUnit.MILLISECONDS);
    }

    private void commit() {
        try {
            consumer.commitSync();
        } catch (KafkaException error) {
            tell("commit_refused", "error", String.valueOf(error.getMessage()), "member", member());
        }
    }

    private void subscribe(String topics) {
        ConsumerRebalanceListener listener = new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> parts) {
                told("assigned", parts);
            }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> parts) {
                told("revoked", parts);
            }

            @Override
            public void onPartitionsLost(Collection<TopicPartition> parts) {
                told("lost", parts);
            }
        };
        if (topics.startsWith("^")) {
            consumer.subscribe(Pattern.compile(topics), listener);
        } else {
            consumer.subscribe(Arrays.asList(topics.split(",")), listener);
        }
    }

    private void told(String event, Collection<TopicPartition> parts) {
        List<String> names = new ArrayList<>();
        parts.forEach(part -> names.add("\"" + part + "\""));
        names.sort(null);
        String list = "[" + String.join(", ", names) + "]";
        line("\"event\": \"" + event + "\", \"member\": \"" + member() + "\", \"partitions\": " + list);
    }

    private String member() {
        try {
            return consumer.groupMetadata().memberId();
        } catch (RuntimeException none) {
            return "";
        }
    }

    private void readCommands() {
        try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in))) {
            String text = input.readLine();
            while (text != null && !text.trim().equals("close")) {
                commands.add(text.trim().split("\\s+"));
                text = input.readLine();
            }
        } catch (java.io.IOException gone) {
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

    private static void tell(String event, String... pairs) {
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
}
