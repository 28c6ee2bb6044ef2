import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** HDFS and YARN in one process; writes their configuration to args[0], and ends with its standard input. */
public class MiniCluster {
    public static void main(String[] args) throws Exception {
        YarnConfiguration conf = new YarnConfiguration();
        for (int i = 1; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            conf.set(pair[0], pair[1]);
        }
        MiniDFSCluster files = new MiniDFSCluster.Builder(conf).numDataNodes(1).build();
        files.waitActive();
        MiniYARNCluster yarn = new MiniYARNCluster("lab", 1, 1, 1);
        yarn.init(conf);
        yarn.start();
        Path draft = Path.of(args[0] + ".draft");
        try (OutputStream out = Files.newOutputStream(draft)) {
            yarn.getConfig().writeXml(out);
        }
        Files.move(draft, Path.of(args[0]));
        while (System.in.read() >= 0) {
            // until the test closes it
        }
        System.exit(0);
    }
}
