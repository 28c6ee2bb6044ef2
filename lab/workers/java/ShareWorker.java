import java.time.Duration;
import java.util.Arrays;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;

/** A worker on the Java KafkaShareConsumer (KIP-932): records are shared, acknowledged on the next poll. */
public final class ShareWorker extends Life {
    private final KafkaShareConsumer<byte[], byte[]> consumer;

    private ShareWorker(String[] arguments) {
        super(arguments);
        this.consumer = new KafkaShareConsumer<>(common());
    }

    public static void main(String[] arguments) throws Exception {
        live(arguments, ShareWorker::new);
    }

    @Override
    void begin() {
        consumer.subscribe(Arrays.asList(flag("topics", "").split(",")));
    }

    @Override
    void turn() throws InterruptedException {
        if (consumer.subscription().isEmpty()) {
            pause(0.2);
            return;
        }
        int records = consumer.poll(Duration.ofMillis(200)).count();
        double processing = Double.parseDouble(flag("processing-s", "0"));
        if (records > 0 && processing > 0) {
            pause(processing);
        }
    }

    @Override
    boolean obey(String[] command) {
        switch (command[0]) {
            case "subscribe" -> consumer.subscribe(Arrays.asList(command[1].split(",")));
            case "unsubscribe" -> consumer.unsubscribe();
            default -> {
                return false;
            }
        }
        return true;
    }

    @Override
    String member() {
        return "";
    }

    @Override
    void end() {
        consumer.close();
    }
}
