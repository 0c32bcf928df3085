-- Questions to a node and its answers, as bytes: version 1 of the frame of docs/protocol.md, one check each.
--
-- Plain Lua 5.1 to 5.4 and LuaJIT, without a socket: nginx and HAProxy have their own (rlnode_nginx.lua,
-- rlnode_haproxy.lua). Numbers above 2^53 are read to the precision of a double where Lua has no integers.

local rlnode = {}

local HEADER_BYTES = 20
local RECORD_BYTES = 64
local REQUEST, REPLY = 1, 2
-- What a field of eight bytes says where there is no number, and no end to a wait.
local NONE = ("\255"):rep(8)

rlnode.HEADER_BYTES = HEADER_BYTES
-- The longest answer to one check without details: a name has 129 bytes at most.
rlnode.ANSWER_BYTES_MAX = HEADER_BYTES + RECORD_BYTES + 129

local REASONS = { [0] = "ok", "limit", "share", "isolated", "deny", "banned", "unmatched", "full" }

local floor, byte, char = math.floor, string.byte, string.char

-- `number` in `bytes` bytes, the lowest first.
local function packed(number, bytes)
    local out = {}
    for at = 1, bytes do
        out[at] = char(number % 256)
        number = floor(number / 256)
    end
    return table.concat(out)
end

-- The number in the `count` bytes of `bytes` from `at` on.
local function unpacked(bytes, at, count)
    local number = 0
    for index = at + count - 1, at, -1 do
        number = number * 256 + byte(bytes, index)
    end
    return number
end

-- The eight bytes from `at` on; nil: there is no number.
local function unpacked64(bytes, at)
    if bytes:sub(at, at + 7) == NONE then
        return nil
    end
    return unpacked(bytes, at, 8)
end

local function is_whole(number, least, most)
    return type(number) == "number" and number >= least and number <= most and number % 1 == 0
end

local function is_text(text, least, most)
    return type(text) == "string" and #text >= least and #text <= most
end

-- The frame that asks for one check; nil and why, where it cannot be meant.
--
-- check.id          number that the answer repeats, 0 to 2^48
-- check.key         who calls, 1 to 1,024 bytes
-- check.endpoint    what is called, up to 1,024 bytes
-- check.cost        in requests, 0 to 2^53; 1 if it is left out
-- check.attributes  further facts by name, at most 16
function rlnode.question(check)
    if not is_whole(check.id, 0, 2 ^ 48) then
        return nil, "the id is no whole number from 0 to 2^48"
    end
    if not is_text(check.key, 1, 1024) then
        return nil, "the key is no text of 1 to 1024 bytes"
    end
    local endpoint = check.endpoint or ""
    if not is_text(endpoint, 0, 1024) then
        return nil, "the endpoint is no text of up to 1024 bytes"
    end
    local attributes, count = {}, 0
    for name, value in pairs(check.attributes or {}) do
        if not is_text(name, 1, 64) or not is_text(value, 0, 256) then
            return nil, "an attribute has a name that is not of 1 to 64 bytes, or a value that is not of up to 256"
        end
        count = count + 1
        attributes[count] = char(#name) .. packed(#value, 2) .. name .. value
    end
    if count > 16 then
        return nil, "there are more than 16 attributes"
    end
    table.sort(attributes)
    local cost = ""
    if check.cost ~= nil then
        if not is_whole(check.cost, 0, 2 ^ 53) then
            return nil, "the cost is no whole number from 0 to 2^53"
        end
        -- The unit without a name is `requests`.
        cost = "\0" .. packed(check.cost, 8)
    end
    local fields = char(1, 0)
        -- The node may hold the check for as long as its file says.
        .. "\255\255\255\255"
        .. char(count, cost == "" and 0 or 1)
        .. packed(#check.key, 2)
        .. packed(#endpoint, 2)
        .. check.key
        .. endpoint
        .. table.concat(attributes)
        .. cost
    local record = packed(#fields + 2, 2) .. fields
    local length = HEADER_BYTES + #record
    return "RL" .. char(1, REQUEST) .. packed(length, 4) .. packed(check.id, 8) .. "\0\0\1\0" .. record
end

-- Of a frame that begins with `header`: its length and id; nil where that is no frame that a node sends.
function rlnode.frame(header)
    if #header < HEADER_BYTES or header:sub(1, 2) ~= "RL" then
        return nil
    end
    local length = unpacked(header, 5, 4)
    if length < HEADER_BYTES or length > 65507 then
        return nil
    end
    return length, unpacked(header, 9, 8)
end

-- The answer in the frame `bytes`; nil and why, where the node decided nothing.
--
-- allowed      whether the request may go on
-- reason       a word of docs/protocol.md; nil: one that is newer than this
-- limit_name   the limit that decided; empty: none matched
-- limit, remaining, reset_at_s (Unix time), reset_after_s, retry_after_s
--              rounded up to seconds; nil: there is no number, or it is never
-- delay_s      how long to wait before going on, although allowed, in seconds with a fraction
function rlnode.answer(bytes)
    local length = rlnode.frame(bytes)
    if not length or #bytes < length or byte(bytes, 3) ~= 1 then
        return nil, "what came is no frame of version 1"
    end
    if byte(bytes, 4) ~= REPLY then
        return nil, "the node refused the frame"
    end
    local at = HEADER_BYTES + 1
    if length < HEADER_BYTES + RECORD_BYTES or unpacked(bytes, 19, 2) ~= 1 then
        return nil, "what came is no answer to one check"
    end
    local record = unpacked(bytes, at, 2)
    local name = byte(bytes, at + 6)
    if record < RECORD_BYTES + name or HEADER_BYTES + record > length then
        return nil, "the answer is cut short"
    end
    local status = byte(bytes, at + 2)
    if status ~= 0 then
        return nil, "the node says status " .. status
    end
    local function seconds(offset, per_second)
        local number = unpacked64(bytes, at + offset)
        return number and math.ceil(number / per_second)
    end
    local delay = unpacked64(bytes, at + 48)
    return {
        allowed = byte(bytes, at + 3) % 2 == 1,
        reason = REASONS[byte(bytes, at + 4)],
        limit_name = bytes:sub(at + RECORD_BYTES, at + RECORD_BYTES + name - 1),
        limit = unpacked64(bytes, at + 8),
        remaining = unpacked64(bytes, at + 16),
        reset_after_s = seconds(24, 1e9),
        reset_at_s = seconds(32, 1e3),
        retry_after_s = seconds(40, 1e9),
        delay_s = delay and delay / 1e9,
    }
end

-- The headers that tell a client of `answer`, by name. Nothing is said where there is no number.
function rlnode.headers(answer)
    local headers = {}
    if not answer.limit or not answer.remaining then
        return headers
    end
    headers["X-RateLimit-Limit"] = ("%d"):format(answer.limit)
    headers["X-RateLimit-Remaining"] = ("%d"):format(answer.remaining)
    if answer.reset_at_s then
        headers["X-RateLimit-Reset"] = ("%d"):format(answer.reset_at_s)
    end
    -- A string of structured fields; the file of a node has no names with other bytes in them.
    local name = answer.limit_name:gsub('[\\"]', "\\%0")
    local time = answer.reset_after_s
    if not answer.allowed then
        time = answer.retry_after_s
    end
    local state = ('"%s";r=%d'):format(name, math.min(answer.remaining, 999999999999999))
    headers["RateLimit"] = time and state .. (";t=%d"):format(time) or state
    if not answer.allowed and answer.retry_after_s then
        headers["Retry-After"] = ("%d"):format(math.max(answer.retry_after_s, 1))
    end
    return headers
end

return rlnode
