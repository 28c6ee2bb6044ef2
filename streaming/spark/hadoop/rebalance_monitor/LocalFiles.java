package rebalance_monitor;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system, whose every file and checksum is there, with one difference: a file gets its
 * permissions by a call of the system. Hadoop starts a `chmod` for that where its native library is missing.
 */
public final class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
        super(new Raw());
    }

    private static final class Raw extends RawLocalFileSystem {
        @Override
        public void setPermission(Path path, FsPermission permission) throws IOException {
            if (permission.getStickyBit()) {
                // Java has no name for it.
                super.setPermission(path, permission);
                return;
            }
            var given = PosixFilePermissions.fromString(permission.toString());
            Files.setPosixFilePermissions(pathToFile(path).toPath(), given);
        }
    }
}
