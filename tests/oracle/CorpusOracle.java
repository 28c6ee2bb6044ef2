import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordType;

/**
 * Kafka's own word on the records of __consumer_offsets, as JSON lines.
 *
 * <p>{@code write} writes, with Kafka's generated classes, every record type in every value version with edge values in
 * every field, and prints the bytes beside Kafka's JSON. {@code read} reads lines of "key value" (base64, "-" for null)
 * and prints what Kafka's deserializer makes of them. The fields are found by reflection, so a newer Kafka's new types,
 * versions and tags join the corpus without a change here. Output depends on nothing but Kafka's version.
 * {@code partition} is where a topic of 50 partitions keeps the record's group.
 */
public class CorpusOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();

    public static void main(String[] args) throws Exception {
        var utf8 = new OutputStreamWriter(System.out, StandardCharsets.UTF_8);
        try (PrintWriter out = new PrintWriter(new BufferedWriter(utf8, 1 << 16))) {
            if (args[0].equals("write")) {
                for (CoordinatorRecordType type : CoordinatorRecordType.values()) {
                    writeType(type, out);
                }
            } else {
                readLines(out);
            }
        }
    }

    // --- write ---------------------------------------------------------------------------------------------------

    private static void writeType(CoordinatorRecordType type, PrintWriter out) throws Exception {
        Object key = Variants.filled(type.newRecordKey().getClass(), 0);
        for (short version = type.lowestSupportedVersion(); version <= type.highestSupportedVersion(); version++) {
            for (Variants.Variant value : Variants.of(type.newRecordValue().getClass(), version)) {
                byte[] bytes = valueBytes(value.message(), version);
                if (bytes != null) {
                    print(out, type + " v" + version + ": " + value.label(), keyBytes(key), bytes);
                }
            }
            distort(type, version, out);
        }
        Object value = Variants.filled(type.newRecordValue().getClass(), type.highestSupportedVersion());
        for (Variants.Variant variant : Variants.of(type.newRecordKey().getClass(), 0)) {
            byte[] bytes = keyBytes(variant.message());
            if (bytes == null) {
                continue;
            }
            print(out, type + " key: " + variant.label(), bytes, valueBytes(value, type.highestSupportedVersion()));
            print(out, type + " tombstone: " + variant.label(), bytes, null);
        }
    }

    /** The filled record with another version number, bytes too many, and cut at every byte. */
    private static void distort(CoordinatorRecordType type, short version, PrintWriter out) throws Exception {
        byte[] key = keyBytes(Variants.filled(type.newRecordKey().getClass(), 0));
        byte[] value = valueBytes(Variants.filled(type.newRecordValue().getClass(), version), version);
        String name = type + " v" + version + ": ";
        print(out, name + "trailing byte", key, Arrays.copyOf(value, value.length + 1));
        for (int other : new int[] {-32768, -1, type.highestSupportedVersion() + 1, 32767}) {
            byte[] changed = value.clone();
            ByteBuffer.wrap(changed).putShort((short) other);
            print(out, name + "says version " + other, key, changed);
        }
        for (int length = 0; length < value.length; length++) {
            print(out, name + "cut at byte " + length, key, Arrays.copyOf(value, length));
        }
        for (int length = 0; length < key.length && version == type.highestSupportedVersion(); length++) {
            print(out, name + "key cut at byte " + length, Arrays.copyOf(key, length), value);
        }
    }

    /** Null where the message holds tags: keys are never flexible. */
    private static byte[] keyBytes(Object key) {
        try {
            return MessageUtil.toCoordinatorTypePrefixedBytes((ApiMessage) key);
        } catch (UnsupportedVersionException refused) {
            return null;
        }
    }

    /** Null where this version has no room for what is in the message. */
    private static byte[] valueBytes(Object value, short version) {
        try {
            return MessageUtil.toVersionPrefixedBytes(version, (Message) value);
        } catch (UnsupportedVersionException refused) {
            return null;
        }
    }

    // --- what Kafka reads ------------------------------------------------------------------------------------------

    private static void readLines(PrintWriter out) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ", -1);
            print(out, null, fromBase64(parts[0]), fromBase64(parts[1]));
        }
    }

    private static void print(PrintWriter out, String label, byte[] key, byte[] value) throws Exception {
        ObjectNode line = JSON.createObjectNode();
        if (label != null) {
            line.put("label", label).put("rawKey", toBase64(key)).put("rawValue", toBase64(value));
        }
        try {
            line.setAll(kafkaJson(SERDE.deserialize(buffer(key), buffer(value))));
        } catch (RuntimeException refused) {
            Throwable cause = refused.getCause() == null ? refused : refused.getCause();
            line.put("refused", cause.getClass().getSimpleName());
        }
        out.println(JSON.writeValueAsString(line));
    }

    private static ObjectNode kafkaJson(CoordinatorRecord record) throws Exception {
        ObjectNode line = JSON.createObjectNode();
        String getter = record.key().apiKey() < 3 ? "group" : "groupId";
        String group = (String) record.key().getClass().getMethod(getter).invoke(record.key());
        line.put("partition", Utils.abs(group.hashCode()) % 50);
        line.putObject("key").put("type", record.key().apiKey())
            .set("data", CoordinatorRecordJsonConverters.writeRecordKeyAsJson(record.key()));
        if (record.value() == null) {
            line.putNull("value");
            return line;
        }
        short version = record.value().version();
        JsonNode data = CoordinatorRecordJsonConverters.writeRecordValueAsJson(record.value().message(), version);
        line.putObject("value").put("version", version).set("data", data);
        return line;
    }

    private static ByteBuffer buffer(byte[] bytes) {
        return bytes == null ? null : ByteBuffer.wrap(bytes);
    }

    private static String toBase64(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    private static byte[] fromBase64(String text) {
        return text.equals("-") ? null : Base64.getDecoder().decode(text);
    }
}
