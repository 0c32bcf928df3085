-- A token bucket, as services write it in redis: level and time in a hash that expires when full.
-- KEYS[1] bucket; ARGV: milliseconds per unit, burst, cost, now in milliseconds.
-- Returns: 1 allowed or 0 denied, whole units left, milliseconds to wait.
local period, burst, cost, now =
    tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local bucket = redis.call('HMGET', KEYS[1], 'level', 'at')
local level, at = tonumber(bucket[1]) or burst, tonumber(bucket[2]) or now
-- Clients send their own time, and what was sent first may come last: time never goes back, as the
-- same stretch of it would refill the bucket twice.
now = math.max(now, at)
level = math.min(burst, level + (now - at) / period)
if level < cost then
    return {0, math.floor(level), math.ceil((cost - level) * period)}
end
level = level - cost
redis.call('HSET', KEYS[1], 'level', level, 'at', now)
redis.call('PEXPIRE', KEYS[1], math.ceil((burst - level) * period))
return {1, math.floor(level), 0}
