import java.io.FileOutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/**
 * HDFS, and YARN where it has nodes, in this process. Arguments: a folder, the file for the configuration, the number
 * of node managers, then name=value.
 */
public final class Mini {
  public static void main(String[] args) throws Exception {
    Configuration conf = new YarnConfiguration();
    conf.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, args[0] + "/hdfs");
    for (int n = 3; n < args.length; n++) {
      String[] pair = args[n].split("=", 2);
      conf.set(pair[0], pair[1]);
    }
    MiniDFSCluster hdfs = new MiniDFSCluster.Builder(conf).numDataNodes(1).build();
    hdfs.waitActive();
    int nodes = Integer.parseInt(args[2]);
    Configuration told = new Configuration(nodes > 0 ? yarn(conf, nodes).getConfig() : conf);
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

  private static MiniYARNCluster yarn(Configuration conf, int nodes) throws Exception {
    MiniYARNCluster yarn = new MiniYARNCluster("mini", nodes, 1, 1);
    yarn.init(conf);
    yarn.start();
    if (!yarn.waitForNodeManagersToConnect(60_000)) throw new IllegalStateException("no node manager");
    return yarn;
  }
}
