package com.sun.security.auth.module;

/**
 * Stands in for the JDK's class where the user id has no name (streaming/spark/user.py says why). The JDK's
 * asks the system and answers null, on which Hadoop's login ends. This one answers from system properties.
 */
public class UnixSystem {
    protected String username = System.getProperty("user.name");
    protected long uid = Long.getLong("rebalance_monitor.uid", 0);
    protected long gid = Long.getLong("rebalance_monitor.gid", 0);
    protected long[] groups = {gid};

    public String getUsername() {
        return username;
    }

    public long getUid() {
        return uid;
    }

    public long getGid() {
        return gid;
    }

    public long[] getGroups() {
        return groups.clone();
    }
}
