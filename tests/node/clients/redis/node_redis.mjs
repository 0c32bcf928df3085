// Floods a key through node-redis: 20 calls at once, of which 10 are to pass. Prints what came of it.
import { createRequire } from "node:module";

const require = createRequire(process.argv[2] + "/");
const { createClient } = require("redis");

const client = createClient({
  socket: { port: Number(process.argv[3]), reconnectStrategy: false, connectTimeout: 2000 },
  RESP: Number(process.argv[4]),
});
client.on("error", () => {});
try {
  await client.connect();
  const calls = Array.from({ length: 20 }, () =>
    client.sendCommand(["CL.THROTTLE", "node-redis", "9", "10", "3600"]),
  );
  const answers = await Promise.all(calls);
  const checked = await client.sendCommand(["RL.CHECK", "alice", "GET /", "COST", "2"]);
  const remaining = Array.isArray(checked)
    ? checked[checked.indexOf("remaining") + 1]
    : (checked.remaining ?? checked.get?.("remaining"));
  const passed = answers.filter((answer) => answer[0] === 0).length;
  console.log(passed, answers.length - passed, answers[19][1], remaining);
} catch {
  console.log("gone");
}
process.exit(0);
