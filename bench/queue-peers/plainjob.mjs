// How many operations a second plainjob acknowledges durably; prints one line of JSON.
//
//     plainjob.mjs MODULES DIRECTORY enqueue|cycle SECONDS CLIENTS
//
// It is synchronous: one process, in which the clients are loops that take turns. Its own workers do
// the same calls with logging between; here they are done directly, as many as there are clients.

import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, directory, what, seconds, clients] = process.argv.slice(2);
const load = createRequire(join(modules, "index.js"));
const Database = load("better-sqlite3");
const { better, defineQueue } = await import(
  pathToFileURL(join(modules, "node_modules/plainjob/dist/plainjob.js"))
);
const params = { number: 1, to: "someone@example.org" };
const database = new Database(join(directory, "queue.db"));
const logger = { debug() {}, info() {}, warn() {}, error() {} };
const queue = defineQueue({ connection: better(database), logger });
// It has set NORMAL.
database.pragma("synchronous = FULL");
const level = database.pragma("synchronous", { simple: true });
if (level !== 2) {
  console.error(`error: \`synchronous\` is ${level} and not FULL`);
  process.exit(1);
}

let done = 0;
const began = performance.now();
const end = began + Number(seconds) * 1000;
async function client() {
  while (performance.now() < end) {
    queue.add("noop", params);
    await null;
    if (what === "cycle") {
      const job = queue.getAndMarkJobAsProcessing("noop");
      await null;
      if (job === undefined) continue;
      queue.getJobById(job.id);
      queue.markJobAsDone(job.id);
      await null;
    }
    done += 1;
  }
}
await Promise.all(Array.from({ length: Number(clients) }, client));
const took = (performance.now() - began) / 1000;
queue.close();
console.log(
  JSON.stringify({
    done,
    seconds: took,
    clients: `${clients} loops of one thread`,
    durability: "synchronous=FULL",
  }),
);
