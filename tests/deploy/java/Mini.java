import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.security.UserGroupInformation;
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
    if (conf.get("hadoop.security.authentication").equals("kerberos")) {
      // All servers are one process, which has one login.
      UserGroupInformation.setConfiguration(conf);
      UserGroupInformation.loginUserFromKeytab(
          conf.get("dfs.namenode.kerberos.principal"), conf.get("dfs.namenode.keytab.file"));
    }
    MiniDFSCluster hdfs = new MiniDFSCluster.Builder(conf).numDataNodes(1).build();
    hdfs.waitActive();
    for (String user : conf.getTrimmedStrings("mini.homes")) home(hdfs.getFileSystem(), user);
    int nodes = Integer.parseInt(args[2]);
    MiniYARNCluster yarn = nodes > 0 ? yarn(conf, nodes) : null;
    Configuration told = new Configuration(yarn == null ? conf : yarn.getConfig());
    // A class of the tests' own, which no client has.
    told.set("net.topology.node.switch.mapping.impl", "org.apache.hadoop.net.ScriptBasedMapping");
    Path draft = Path.of(args[1] + ".draft");
    try (FileOutputStream out = new FileOutputStream(draft.toFile())) {
      told.writeXml(out);
    }
    Files.move(draft, Path.of(args[1]), StandardCopyOption.ATOMIC_MOVE);
    // Each line names a node manager that is to end; the input ends with whoever started this.
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      yarn.getNodeManager(Integer.parseInt(line)).stop();
    }
    Runtime.getRuntime().halt(0);
  }

  private static void home(FileSystem files, String user) throws Exception {
    org.apache.hadoop.fs.Path home = new org.apache.hadoop.fs.Path("/user/" + user);
    files.mkdirs(home);
    files.setPermission(home, new FsPermission((short) 0700));
    files.setOwner(home, user, user);
  }

  private static MiniYARNCluster yarn(Configuration conf, int nodes) throws Exception {
    MiniYARNCluster yarn = new MiniYARNCluster("mini", nodes, 1, 1);
    yarn.init(conf);
    yarn.start();
    if (!yarn.waitForNodeManagersToConnect(60_000)) throw new IllegalStateException("no node manager");
    return yarn;
  }
}
