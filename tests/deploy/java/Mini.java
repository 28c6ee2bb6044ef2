import java.io.FileOutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** HDFS and YARN in this process. Arguments: a folder, the file for the configuration, then name=value. */
public final class Mini {
  public static void main(String[] args) throws Exception {
    Configuration conf = new YarnConfiguration();
    conf.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, args[0] + "/hdfs");
    for (int n = 2; n < args.length; n++) {
      String[] pair = args[n].split("=", 2);
      conf.set(pair[0], pair[1]);
    }
    MiniDFSCluster hdfs = new MiniDFSCluster.Builder(conf).numDataNodes(1).build();
    hdfs.waitActive();
    MiniYARNCluster yarn = new MiniYARNCluster("mini", 1, 1, 1);
    yarn.init(conf);
    yarn.start();
    if (!yarn.waitForNodeManagersToConnect(60_000)) throw new IllegalStateException("no node manager");
    Configuration told = new Configuration(yarn.getConfig());
    // A class of the tests' own, which no client has.
    told.set("net.topology.node.switch.mapping.impl", "org.apache.hadoop.net.ScriptBasedMapping");
    Path draft = Path.of(args[1] + ".draft");
    try (FileOutputStream out = new FileOutputStream(draft.toFile())) {
      told.writeXml(out);
    }
    Files.move(draft, Path.of(args[1]), StandardCopyOption.ATOMIC_MOVE);
    // Ends with whoever started it.
    while (System.in.read() >= 0) {}
    Runtime.getRuntime().halt(0);
  }
}
