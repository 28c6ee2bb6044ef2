#!/bin/sh
# What the image runs: a verb of the monitor, or what Spark on Kubernetes asks of an image, which is `driver` with
# arguments for spark-submit, and `executor` with everything in the environment.
set -eu

# A user id without a name (OpenShift): Spark's JVMs that the monitor does not start itself (streaming/spark/user.py).
name_user() {
    id -un >/dev/null 2>&1 && return
    options=$(python -c 'from rebalance_monitor.streaming.spark.user import user_option as o; print(o("/tmp"))')
    export JDK_JAVA_OPTIONS="${JDK_JAVA_OPTIONS:-} $options"
}

case "${1:-}" in
driver)
    shift
    name_user
    exec "$SPARK_HOME/bin/spark-submit" --deploy-mode client \
        --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" "$@"
    ;;
executor)
    name_user
    set --
    while option=$(printenv "SPARK_JAVA_OPT_$#"); do
        set -- "$@" "$option"
    done
    exec java "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
        -cp "${SPARK_CONF_DIR:+$SPARK_CONF_DIR:}${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}$SPARK_HOME/jars/*" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
*)
    exec rebalance-monitor "$@"
    ;;
esac
