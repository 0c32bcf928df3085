-- The client of a node in nginx: asks over UDP for each request, answers 429 itself, and has a count of its own for
-- when the node does not answer. For the access phase; docs/recipes/nginx-lua.md is its page.

local rlnode = require("rlnode")

local limiter = {}
limiter.__index = limiter

local PROBLEM = '{"type":"about:blank","title":"%s","status":%d}\n'
-- Names a frame. A socket is of one request, so that this is for late answers of ports that are used again.
local last_id = 0

local function checked(is_sound, name, meaning)
    if not is_sound then
        error("rlnode: `" .. name .. "` is not " .. meaning, 3)
    end
end

-- A limiter that asks by these options. An error names the one that cannot be meant.
--
-- address     of the node's UDP door, "127.0.0.1"
-- port        of it, 7400
-- timeout_ms  how long to wait for an answer, 20
-- silent      what becomes of a request when the node does not answer: "open", "closed" (503), or "local"
-- away_s      for how long it is not asked again then, 0.2
-- dict        the lua_shared_dict where workers share what they know of that, "rlnode"
-- limit       of "local": requests that one key has in a window of this host, the limit by the number of hosts
-- window_s    of "local": length of that window
local function new(options)
    local self = setmetatable({
        address = options.address or "127.0.0.1",
        port = options.port or 7400,
        timeout_ms = options.timeout_ms or 20,
        silent = options.silent or "open",
        away_s = options.away_s or 0.2,
        dict = ngx.shared[options.dict or "rlnode"],
        limit = options.limit,
        window_s = options.window_s,
    }, limiter)
    checked(self.dict, "dict", "the name of a lua_shared_dict")
    checked(self.timeout_ms >= 1, "timeout_ms", "1 at least")
    checked(self.away_s > 0, "away_s", "above 0")
    checked(
        self.silent == "open" or self.silent == "closed" or self.silent == "local",
        "silent", '"open", "closed" or "local"'
    )
    if self.silent == "local" then
        checked(type(self.limit) == "number" and self.limit >= 1, "limit", "a number from 1 on")
        checked(type(self.window_s) == "number" and self.window_s >= 1, "window_s", "a number from 1 on")
    end
    return self
end

-- The answer of the node; nil, why, and whether it is silent, where there is none.
function limiter:ask(check)
    last_id = (last_id + 1) % 2 ^ 48
    check.id = last_id
    local question, fault = rlnode.question(check)
    if not question then
        return nil, fault, false
    end
    local socket = ngx.socket.udp()
    local is_sent, error_text = socket:setpeername(self.address, self.port)
    if is_sent then
        is_sent, error_text = socket:send(question)
    end
    local answer
    local is_silent = true
    local ends = ngx.now() + self.timeout_ms / 1e3
    while is_sent do
        ngx.update_time()
        local left_ms = math.ceil((ends - ngx.now()) * 1e3)
        if left_ms < 1 then
            error_text = "timeout"
            break
        end
        socket:settimeout(left_ms)
        local bytes
        bytes, error_text = socket:receive(rlnode.ANSWER_BYTES_MAX)
        if not bytes then
            break
        end
        local _, id = rlnode.frame(bytes)
        -- An answer to another question is none.
        if id == check.id then
            answer, error_text = rlnode.answer(bytes)
            is_silent = false
            break
        end
    end
    socket:close()
    return answer, error_text, is_silent
end

-- Ends the request with `status`.
local function finish(status, title, headers)
    ngx.status = status
    for name, value in pairs(headers) do
        ngx.header[name] = value
    end
    ngx.header["Content-Type"] = "application/problem+json"
    ngx.print(PROBLEM:format(title, status))
    return ngx.exit(status)
end

-- Whether this host's own count lets `key` pass, and the seconds until it may again.
function limiter:counts(key)
    local now = ngx.now()
    local window = math.floor(now / self.window_s)
    local ends_s = math.ceil((window + 1) * self.window_s - now)
    -- Where the dict has no room the oldest counts go, which lets through too many rather than too few.
    local count = self.dict:incr("count:" .. window .. ":" .. key, 1, 0, 2 * self.window_s)
    return (count or 0) <= self.limit, math.max(ends_s, 1)
end

function limiter:fall_back(key)
    if self.silent == "open" then
        return
    end
    if self.silent == "closed" then
        return finish(503, "Service Unavailable", { ["Retry-After"] = "1" })
    end
    local passes, wait_s = self:counts(key)
    if not passes then
        return finish(429, "Too Many Requests", { ["Retry-After"] = tostring(wait_s) })
    end
end

-- Lets the request of this moment go on or ends it. `check` is as of rlnode.question; without an endpoint it is
-- method and path.
function limiter:access(check)
    if check.endpoint == nil then
        check.endpoint = ngx.req.get_method() .. " " .. ngx.var.request_uri:gsub("%?.*$", "")
    end
    local answer
    if not self.dict:get("away") then
        local fault, is_silent
        answer, fault, is_silent = self:ask(check)
        if not answer then
            ngx.log(ngx.WARN, "rlnode: no answer: ", fault)
        end
        -- A question that cannot be meant says nothing of the node, or one caller could send it away for all.
        if is_silent then
            self.dict:set("away", true, self.away_s)
        end
    end
    if not answer then
        return self:fall_back(check.key or "")
    end
    local headers = rlnode.headers(answer)
    if not answer.allowed then
        return finish(429, "Too Many Requests", headers)
    end
    for name, value in pairs(headers) do
        ngx.header[name] = value
    end
    if answer.delay_s and answer.delay_s > 0 then
        ngx.sleep(answer.delay_s)
    end
end

return { new = new }
