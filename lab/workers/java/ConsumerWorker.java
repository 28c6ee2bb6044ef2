import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/** A worker on the Java KafkaConsumer: classic groups, and KIP-848 with `--protocol consumer`. */
public final class ConsumerWorker extends Life {
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private static final double FOR_EVER = 86_400;

    private final List<KafkaConsumer<byte[], byte[]>> leaked = new ArrayList<>();
    private KafkaConsumer<byte[], byte[]> consumer;
    private long due;

    private ConsumerWorker(String[] arguments) {
        super(arguments);
        this.consumer = new KafkaConsumer<>(properties());
        this.due = System.nanoTime() + commitEvery();
    }

    public static void main(String[] arguments) throws Exception {
        live(arguments, ConsumerWorker::new);
    }

    private Properties properties() {
        Properties all = common();
        all.put("enable.auto.commit", String.valueOf(flag("commit", "auto").equals("auto")));
        all.put("auto.commit.interval.ms", flag("commit-ms", "1000"));
        all.put("auto.offset.reset", "earliest");
        if (flag("commit", "auto").equals("record")) {
            all.put("max.poll.records", "1");
        }
        all.put("max.poll.interval.ms", flag("poll-ms", "8000"));
        if (!flag("instance-id", "").isEmpty()) {
            all.put("group.instance.id", flag("instance-id", ""));
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

    @Override
    void begin() {
        subscribe(flag("topics", ""));
    }

    @Override
    void turn() throws InterruptedException {
        if (consumer.subscription().isEmpty()) {
            pause(0.2);
            return;
        }
        boolean found = !consumer.poll(Duration.ofMillis(200)).isEmpty();
        double processing = Double.parseDouble(flag("processing-s", "0"));
        if (found && processing > 0) {
            pause(processing);
        }
        String way = flag("commit", "auto");
        if (found && (way.equals("manual") || way.equals("record"))) {
            commit();
        }
        if (way.equals("timer") && System.nanoTime() >= due) {
            due = System.nanoTime() + commitEvery();
            commit();
        }
    }

    private long commitEvery() {
        return Long.parseLong(flag("commit-ms", "1000")) * 1_000_000;
    }

    @Override
    boolean obey(String[] command) {
        switch (command[0]) {
            case "subscribe" -> subscribe(command[1]);
            case "unsubscribe" -> consumer.unsubscribe();
            case "commit" -> commit();
            case "rejoin" -> consumer.enforceRebalance();
            case "leak" -> {
                // The old one lives on, unclosed and polled by nobody.
                tellStall(FOR_EVER);
                leaked.add(consumer);
                consumer = new KafkaConsumer<>(properties());
                begin();
            }
            default -> {
                return false;
            }
        }
        return true;
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

    @Override
    String member() {
        try {
            return consumer.groupMetadata().memberId();
        } catch (RuntimeException none) {
            return "";
        }
    }

    @Override
    void end() {
        consumer.close();
    }
}
