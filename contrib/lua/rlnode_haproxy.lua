-- The client of a node in HAProxy: an action that asks over the node's unix socket, and leaves what it heard in
-- variables. docs/recipes/haproxy.md is its page.
--
-- `http-request lua.rlnode ADDRESS TIMEOUT_MS`: ADDRESS as in `unix@/run/rlnode/rlnode.sock`.
--
-- Reads   txn.rlnode.key       who calls
--         txn.rlnode.endpoint  what is called; method and path where it is not set
--         txn.rlnode.cost      in requests; 1 where it is not set
-- Writes  txn.rlnode.verdict   "allowed", "denied" or "silent": no answer in time
--         txn.rlnode.limit, .remaining, .reset, .state, .retry_after
--                              values of the headers, where they say something

local rlnode = require("rlnode")

local VARIABLES = {
    ["X-RateLimit-Limit"] = "limit",
    ["X-RateLimit-Remaining"] = "remaining",
    ["X-RateLimit-Reset"] = "reset",
    ["RateLimit"] = "state",
    ["Retry-After"] = "retry_after",
}

-- For so long it is not asked again when it did not answer: a request waits for a node that is stopped, and those
-- that follow do not.
local AWAY_S = 0.2

local last_id = 0
local away_until_s = 0

local function now_s()
    local now = core.now()
    return now.sec + now.usec / 1e6
end

-- The answer of the node; nil: none.
local function ask(address, timeout_s, check)
    if now_s() < away_until_s then
        return nil
    end
    last_id = (last_id + 1) % 2 ^ 48
    check.id = last_id
    local question, fault = rlnode.question(check)
    if not question then
        core.Warning("rlnode: " .. fault)
        return nil
    end
    local socket = core.tcp()
    socket:settimeout(timeout_s)
    local answer
    local is_silent = true
    if socket:connect(address) == 1 and socket:send(question) then
        local header = socket:receive(rlnode.HEADER_BYTES)
        local length, id = rlnode.frame(header or "")
        -- One question on this connection: another id is no answer to it.
        if length and id == check.id and length > rlnode.HEADER_BYTES then
            local rest = socket:receive(length - rlnode.HEADER_BYTES)
            answer = rest and rlnode.answer(header .. rest)
            is_silent = not rest
        end
    end
    socket:close()
    if is_silent then
        away_until_s = now_s() + AWAY_S
    end
    return answer
end

core.register_action("rlnode", { "http-req" }, function(txn, address, timeout_ms)
    local endpoint = txn:get_var("txn.rlnode.endpoint")
    local cost = txn:get_var("txn.rlnode.cost")
    local answer = ask(address, (tonumber(timeout_ms) or 20) / 1e3, {
        key = txn:get_var("txn.rlnode.key"),
        endpoint = endpoint or txn.f:method() .. " " .. txn.f:path(),
        cost = cost and tonumber(cost),
    })
    if not answer then
        txn:set_var("txn.rlnode.verdict", "silent")
        return
    end
    for name, value in pairs(rlnode.headers(answer)) do
        txn:set_var("txn.rlnode." .. VARIABLES[name], value)
    end
    txn:set_var("txn.rlnode.verdict", answer.allowed and "allowed" or "denied")
    if answer.allowed and answer.delay_s and answer.delay_s > 0 then
        core.msleep(math.ceil(answer.delay_s * 1e3))
    end
end, 2)
