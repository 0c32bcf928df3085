// Floods a key through ioredis: 20 calls in one pipeline, of which 10 are to pass. Prints what came of it.
import { createRequire } from "node:module";

const require = createRequire(process.argv[2] + "/");
const { Redis } = require("ioredis");

const client = new Redis({
  port: Number(process.argv[3]),
  retryStrategy: () => null,
  maxRetriesPerRequest: 0,
  connectTimeout: 2000,
});
client.on("error", () => {});
try {
  const pipeline = client.pipeline();
  for (let n = 0; n < 20; n += 1) {
    pipeline.call("CL.THROTTLE", "ioredis", "9", "10", "3600");
  }
  const answers = (await pipeline.exec()).map(([error, answer]) => {
    if (error) throw error;
    return answer;
  });
  const checked = await client.call("RL.CHECK", "alice", "GET /", "COST", "2");
  const remaining = checked[checked.indexOf("remaining") + 1];
  const passed = answers.filter((answer) => answer[0] === 0).length;
  console.log(passed, answers.length - passed, answers[19][1], remaining);
} catch {
  console.log("gone");
}
process.exit(0);
