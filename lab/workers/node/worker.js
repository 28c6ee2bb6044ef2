// A member of a consumer group on kafkajs: the flags, commands and journal are those of the Python workers
// (flags.py, loop.py). kafkajs heartbeats between messages only: a message that takes longer than the session
// costs the member its place. With `--mode deaf` the handler heartbeats meanwhile and does not look at the answer.
"use strict";

const readline = require("node:readline");
const { Kafka, logLevel } = require("kafkajs");

const APART_MS = 270;
// The default; a member hears of a rebalance no sooner than its fetch returns.
const LONGEST_FETCH_MS = 5000;

function tell(event, fields = {}) {
  process.stdout.write(JSON.stringify({ at: Date.now(), event, ...fields }) + "\n");
}

function parse(words) {
  const flags = {};
  for (let at = 0; at + 1 < words.length; at += 2) {
    flags[words[at].replace(/^--/, "")] = words[at + 1];
  }
  const herd = (flags.each || "").split(";").filter(Boolean);
  const own = (one) => Object.fromEntries(one.split(" ").map((pair) => pair.split("=")));
  return herd.length ? herd.map((one) => ({ ...flags, ...own(one) })) : [flags];
}

// A broker that has not heard of a topic yet refuses a subscription for good: then it is tried again.
const AGAIN_MS = 1000;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

class Worker {
  constructor(flags) {
    this.flags = flags;
    this.topics = flags.topics.split(",");
    this.stalledUntil = 0;
    this.read = new Map();
  }

  number(name) {
    return Number(this.flags[name]);
  }

  commits(way) {
    return this.flags.commit === way;
  }

  async begin() {
    tell("started", { group: this.flags.group, client_id: this.flags["client-id"] });
    while (!(await this.join())) {
      await sleep(AGAIN_MS);
    }
    if (this.commits("timer") && !this.timer) {
      this.timer = setInterval(() => this.commit(), this.number("commit-ms"));
    }
  }

  async join() {
    this.make();
    try {
      await this.consumer.connect();
      await this.run();
      return true;
    } catch (error) {
      tell("error", { error: String(error) });
      await this.consumer.disconnect();
      return false;
    }
  }

  make() {
    const { flags } = this;
    this.member = "";
    const kafka = new Kafka({
      brokers: flags.bootstrap.split(","),
      clientId: flags["client-id"],
      logLevel: logLevel.INFO,
      logCreator: () => (entry) => process.stderr.write(JSON.stringify(entry) + "\n"),
    });
    this.consumer = kafka.consumer({
      groupId: flags.group,
      sessionTimeout: this.number("session-ms"),
      rebalanceTimeout: this.number("poll-ms"),
      heartbeatInterval: this.number("heartbeat-ms"),
      metadataMaxAge: 5000,
      maxWaitTimeInMs: Math.min(this.number("fetch-ms") || LONGEST_FETCH_MS, this.number("session-ms") / 4),
    });
    this.listen();
  }

  listen() {
    const { GROUP_JOIN, REBALANCING, CRASH } = this.consumer.events;
    this.consumer.on(GROUP_JOIN, ({ payload }) => {
      this.member = payload.memberId;
      this.read.clear();
      const parts = Object.entries(payload.memberAssignment);
      const partitions = parts.flatMap(([topic, numbers]) => numbers.map((one) => `${topic}-${one}`)).sort();
      tell("assigned", { member: this.member, partitions, group: this.flags.group });
    });
    this.consumer.on(REBALANCING, () => tell("revoked", { member: this.member, partitions: [] }));
    this.consumer.on(CRASH, ({ payload }) => tell("error", { error: String(payload.error), member: this.member }));
  }

  async run() {
    const pattern = this.topics[0].startsWith("^");
    await this.consumer.subscribe({
      topics: pattern ? [new RegExp(this.topics[0])] : this.topics,
      fromBeginning: true,
    });
    const auto = this.commits("auto");
    await this.consumer.run({
      autoCommit: auto,
      autoCommitInterval: auto ? this.number("commit-ms") : null,
      ...(this.commits("manual")
        ? { eachBatchAutoResolve: false, eachBatch: (given) => this.takeBatch(given) }
        : { eachMessage: (given) => this.takeMessage(given) }),
    });
  }

  async takeMessage({ topic, partition, message, heartbeat }) {
    await this.work(heartbeat);
    this.note(topic, partition, message.offset);
    if (this.commits("record")) {
      await this.commit();
    }
  }

  async takeBatch({ batch, resolveOffset, heartbeat, isRunning, isStale }) {
    await this.work(heartbeat);
    for (const message of batch.messages) {
      if (!isRunning() || isStale()) {
        break;
      }
      this.note(batch.topic, batch.partition, message.offset);
      resolveOffset(message.offset);
    }
    await heartbeat();
    await this.commit();
  }

  async work(heartbeat) {
    // Work that is known to take long heartbeats, a stall does not.
    for (let rest = this.number("processing-s") * 1000; rest > 0; rest -= this.number("heartbeat-ms")) {
      await sleep(Math.min(rest, this.number("heartbeat-ms")));
      await heartbeat();
    }
    while (Date.now() < this.stalledUntil) {
      const rest = this.stalledUntil - Date.now();
      await sleep(this.flags.mode === "deaf" ? Math.min(rest, this.number("heartbeat-ms")) : rest);
      if (this.flags.mode === "deaf") {
        await heartbeat().catch(() => {});
      }
    }
  }

  note(topic, partition, offset) {
    this.read.set(`${topic}-${partition}`, { topic, partition, offset: String(BigInt(offset) + 1n) });
  }

  async commit() {
    const offsets = [...this.read.values()];
    this.read.clear();
    try {
      await this.consumer.commitOffsets(offsets);
    } catch (error) {
      tell("commit_refused", { error: String(error), member: this.member });
    }
  }

  async follow(words) {
    const [verb, given] = words;
    if (verb === "stall") {
      this.stalledUntil = Date.now() + Number(given) * 1000;
      // No kafkajs client leaves a group because its work takes long, so it tells of no limit.
      tell("processing", { seconds: Number(given), member: this.member, group: this.flags.group });
    } else if (verb === "block") {
      const end = Date.now() + Number(given) * 1000;
      tell("blocking", { seconds: Number(given), member: this.member, group: this.flags.group });
      while (Date.now() < end) {}
    } else if (verb === "leak") {
      // The old client lives on.
      await this.begin();
    } else if (verb === "subscribe") {
      await this.consumer.stop();
      this.topics = given.split(",");
      await this.run();
    } else if (verb === "unsubscribe") {
      await this.consumer.stop();
    } else if (verb === "commit") {
      await this.commit();
    } else {
      tell("error", { error: `unknown command ${words.join(" ")}` });
    }
    tell("obeyed", { command: words.join(" ") });
  }

  async end() {
    clearInterval(this.timer);
    this.stalledUntil = 0;
    tell("closing", { member: this.member });
    await this.consumer.disconnect();
    tell("closed");
  }
}

async function live(workers) {
  let closing = false;
  const close = async () => {
    if (!closing) {
      closing = true;
      await Promise.all(workers.map((one) => one.consumer && one.end()));
      process.exit(0);
    }
  };
  process.on("SIGTERM", close);
  process.on("SIGINT", close);
  const input = readline.createInterface({ input: process.stdin });
  input.on("line", (line) => {
    const words = line.trim().split(/\s+/);
    if (words[0] === "close") {
      close();
    } else {
      workers.forEach((one) => one.follow(words).catch((error) => tell("error", { error: String(error) })));
    }
  });
  input.on("close", close);
  for (const one of workers) {
    one.begin().catch((error) => tell("error", { error: String(error) }));
    await sleep(APART_MS);
  }
  const lifetime = workers[0].number("lifetime-s");
  if (lifetime > 0) {
    setTimeout(close, lifetime * 1000);
  }
}

live(parse(process.argv.slice(2)).map((flags) => new Worker(flags)));
