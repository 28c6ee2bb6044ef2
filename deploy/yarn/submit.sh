#!/bin/sh
# Submits the monitor to YARN in cluster mode: deploy/yarn/submit.sh monitor.yaml [more spark-submit options]
#
# Needs SPARK_HOME and HADOOP_CONF_DIR (or YARN_CONF_DIR). The Python environment travels as an archive that
# `deploy/yarn/pack.sh` makes; where every node has one already, name its interpreter: PYTHON_ON_NODES=/opt/…/python.
# With Kerberos: KEYTAB=/path PRINCIPAL=monitor@REALM, so that the tokens are renewed for months. Files that the
# configuration names by their bare names (a login, certificates) travel with it: FILES=/secure/jaas,/secure/ca.pem
set -eu

config=${1:?usage: submit.sh monitor.yaml [spark-submit options]}
shift
here=$(cd "$(dirname "$0")" && pwd)
archive=${ARCHIVE:-$here/environment.tar.gz}
scala=${SCALA:-2.13}
connector=${CONNECTOR:-4.0.0}
python=${PYTHON_ON_NODES:-environment/bin/python}
[ -n "${PYTHON_ON_NODES:-}" ] || [ -f "$archive" ] || { echo "submit.sh: $archive is missing; deploy/yarn/pack.sh makes it" >&2; exit 2; }
[ -n "${SPARK_HOME:-}" ] || { echo "submit.sh: SPARK_HOME is not set" >&2; exit 2; }
ships=$([ -n "${PYTHON_ON_NODES:-}" ] || echo yes)
packages=${PACKAGES-org.apache.spark:spark-sql-kafka-0-10_$scala:$connector}

# What RocksDB and Arrow have freed goes back to the system once a minute, as on a local master; a JVM that does not
# know the option passes over it. YARN's own default for the arenas is 4.
jvm="-XX:+IgnoreUnrecognizedVMOptions -XX:TrimNativeHeapInterval=60000 -Dlog4j2.configurationFile=log4j2.properties"

# An application that fails is tried again; failures older than an hour are forgotten, or months would use them up.
# Python's share is beside the JVM's memory: YARN's usual tenth for it is less than a driver or a worker needs.
exec "$SPARK_HOME/bin/spark-submit" \
    --master yarn --deploy-mode cluster --name rebalance-monitor \
    ${packages:+--packages "$packages"} \
    ${KEYTAB:+--keytab "$KEYTAB" --principal "$PRINCIPAL"} \
    ${ships:+--archives "$archive#environment"} \
    --files "$config#monitor.yaml,$here/log4j2.properties${FILES:+,$FILES}" \
    --driver-memory "${DRIVER_MEMORY:-2g}" --executor-memory "${EXECUTOR_MEMORY:-2g}" \
    --num-executors "${EXECUTORS:-2}" --executor-cores 1 \
    --conf spark.driver.maxResultSize=0 \
    --conf spark.driver.memoryOverhead="${DRIVER_OVERHEAD:-2g}" \
    --conf spark.executor.memoryOverhead="${EXECUTOR_OVERHEAD:-1g}" \
    --conf spark.yarn.maxAppAttempts=100 \
    --conf spark.yarn.am.attemptFailuresValidityInterval=1h \
    --conf spark.executor.failuresValidityInterval=1h \
    --conf spark.yarn.submit.waitAppCompletion="${WAIT:-false}" \
    --conf spark.dynamicAllocation.enabled=false \
    --conf spark.pyspark.python="$python" \
    --conf spark.yarn.appMasterEnv.PYSPARK_PYTHON="$python" \
    --conf spark.driver.extraJavaOptions="$jvm" \
    --conf spark.executor.extraJavaOptions="$jvm" \
    --conf spark.yarn.appMasterEnv.MALLOC_ARENA_MAX=2 \
    --conf spark.executorEnv.MALLOC_ARENA_MAX=2 \
    --conf spark.sql.streaming.kafka.useDeprecatedOffsetFetching=true \
    "$@" "$here/run.py"
