import java.lang.invoke.MethodType;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

/**
 * Messages of any of Kafka's generated classes with edge values: one field at a time in an otherwise filled message, all
 * defaults, unknown tags, and seeded random mixtures. Nested structs are varied in the same way.
 */
final class Variants {
    private static final int[] SIZES = {0, 1, 126, 127, 128, 16383, 16384};
    private static final int RANDOM_RECORDS = 12;

    private Variants() { }

    /** A message and the words that say what is special about it. */
    record Variant(String label, Object message) { }

    /** One settable field of a generated class: where its values go and what may be in it. */
    private record Slot(String name, Method setter, Type type) {
        Class<?> javaType() {
            return setter.getParameterTypes()[0];
        }

        Class<?> elementType() {
            ParameterizedType list = (ParameterizedType) setter.getGenericParameterTypes()[0];
            return MethodType.methodType((Class<?>) list.getActualTypeArguments()[0]).unwrap().returnType();
        }

        void set(Object message, Object value) throws ReflectiveOperationException {
            setter.invoke(message, value);
        }
    }

    static List<Variant> of(Class<?> cls, int version) throws Exception {
        List<Variant> all = new ArrayList<>();
        all.add(new Variant("defaults", cls.getDeclaredConstructor().newInstance()));
        all.add(new Variant("filled", filled(cls, version)));
        for (Slot slot : slots(cls, version)) {
            for (Map.Entry<String, Object> edge : edges(slot, version).entrySet()) {
                Object message = filled(cls, version);
                slot.set(message, edge.getValue());
                all.add(new Variant(slot.name() + " = " + edge.getKey(), message));
            }
        }
        for (byte[][] tags : new byte[][][] {{{}}, {new byte[127]}, {new byte[128]}, {{1, 2, 3}, {4}, {}}}) {
            Object message = filled(cls, version);
            int number = 40;
            for (byte[] tag : tags) {
                ((Message) message).unknownTaggedFields().add(new RawTaggedField(number, tag));
                number += 100;
            }
            all.add(new Variant(tags.length + " unknown tags, first of " + tags[0].length + " bytes", message));
        }
        Random random = new Random(cls.getSimpleName().hashCode() * 31L + version);
        for (int n = 0; n < RANDOM_RECORDS; n++) {
            all.add(new Variant("random " + n, randomMessage(cls, version, random)));
        }
        return all;
    }

    private static List<Slot> slots(Class<?> cls, int version) throws ReflectiveOperationException {
        List<Slot> found = new ArrayList<>();
        for (BoundField bound : ((Schema) cls.getField("SCHEMA_" + version).get(null)).fields()) {
            if (bound.def.type instanceof TaggedFields tagged) {
                for (Field field : tagged.fields().values()) {
                    found.add(slot(cls, field));
                }
            } else {
                found.add(slot(cls, bound.def));
            }
        }
        return found;
    }

    private static Slot slot(Class<?> cls, Field field) {
        String setter = "set" + field.name.replace("_", "");
        for (Method method : cls.getMethods()) {
            if (method.getName().equalsIgnoreCase(setter)) {
                return new Slot(field.name, method, field.type);
            }
        }
        throw new IllegalStateException(cls + " has no " + setter);
    }

    /** Every field set to something that is not its default. */
    static Object filled(Class<?> cls, int version) throws ReflectiveOperationException {
        Object message = cls.getDeclaredConstructor().newInstance();
        int number = 1;
        for (Slot slot : slots(cls, version)) {
            slot.set(message, sample(slot, version, number++));
        }
        return message;
    }

    private static Object sample(Slot slot, int version, int number) throws ReflectiveOperationException {
        Class<?> type = slot.javaType();
        return type == List.class ? List.of(scalar(slot.elementType(), slot.name(), version, number))
            : scalar(type, slot.name(), version, number);
    }

    private static Object scalar(Class<?> type, String name, int version, int number)
            throws ReflectiveOperationException {
        if (type == String.class) return name.replace('_', '-');
        if (type == byte.class) return (byte) number;
        if (type == short.class) return (short) number;
        if (type == int.class) return 1000 + number;
        if (type == long.class) return 1_700_000_000_000L + number;
        if (type == boolean.class) return true;
        if (type == Uuid.class) return new Uuid(0x0102030405060708L, number);
        if (type == byte[].class) return new byte[] {0, (byte) number, -1};
        return filled(type, version);
    }

    private static Map<String, Object> edges(Slot slot, int version) throws Exception {
        Map<String, Object> values = new LinkedHashMap<>();
        if (slot.type().isNullable()) {
            values.put("null", null);
        }
        if (slot.javaType() != List.class) {
            scalarEdges(values, slot.javaType(), slot, version);
            return values;
        }
        Object element = scalar(slot.elementType(), slot.name(), version, 1);
        int longest = element instanceof Message ? 128 : 16384;
        for (int size : SIZES) {
            if (size <= longest) {
                values.put(size + " elements", repeat(element, size));
            }
        }
        Map<String, Object> single = new LinkedHashMap<>();
        scalarEdges(single, slot.elementType(), slot, version);
        single.forEach((label, value) -> values.put("one: " + label, List.of(value)));
        return values;
    }

    private static void scalarEdges(Map<String, Object> values, Class<?> type, Slot slot, int version)
            throws Exception {
        if (type == String.class) {
            for (int size : SIZES) {
                values.put(size + " bytes", "x".repeat(size));
            }
            values.put("unicode", "grüppe 团队 😀 \u0000\u007f\u0080\uffff \ud83c\uddfa\"\\/\u2028");
        } else if (type == byte[].class) {
            for (int size : SIZES) {
                values.put(size + " bytes", new byte[size]);
            }
        } else if (type == Uuid.class) {
            for (Uuid id : new Uuid[] {Uuid.ZERO_UUID, Uuid.ONE_UUID, new Uuid(-1, -1), new Uuid(0, Long.MIN_VALUE)}) {
                values.put(id.toString(), id);
            }
        } else if (Message.class.isAssignableFrom(type)) {
            for (Variant variant : of(type, version)) {
                values.put(variant.label(), variant.message());
            }
        } else {
            numberEdges(values, type, slot.type());
        }
    }

    private static void numberEdges(Map<String, Object> values, Class<?> type, Type schema) {
        long[] numbers = type == byte.class ? new long[] {-128, -1, 0, 1, 127}
            : type == short.class ? new long[] {-32768, -1, 0, 1, 32767}
            : type == long.class ? new long[] {Long.MIN_VALUE, -1, 0, 1, Long.MAX_VALUE}
            : schema == Type.UINT16 ? new long[] {0, 1, 32768, 65535}
            : new long[] {Integer.MIN_VALUE, -1, 0, 1, Integer.MAX_VALUE};
        for (long number : numbers) {
            values.put(Long.toString(number), boxed(type, number));
        }
    }

    private static Object boxed(Class<?> type, long number) {
        if (type == byte.class) return (byte) number;
        if (type == short.class) return (short) number;
        return type == long.class ? (Object) number : (Object) (int) number;
    }

    private static List<Object> repeat(Object element, int times) {
        return new ArrayList<>(Collections.nCopies(times, element));
    }

    private static Object randomMessage(Class<?> cls, int version, Random random) throws Exception {
        Object message = cls.getDeclaredConstructor().newInstance();
        for (Slot slot : slots(cls, version)) {
            List<Object> choices = new ArrayList<>(edges(slot, version).entrySet().stream()
                .filter(edge -> !edge.getKey().contains("1638") && !edge.getKey().startsWith("random"))
                .map(Map.Entry::getValue).toList());
            slot.set(message, choices.get(random.nextInt(choices.size())));
        }
        return message;
    }
}
