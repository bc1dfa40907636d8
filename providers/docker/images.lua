-- Images: whether one is there, and pulls.

local credentials = require "chamvi.sandbox.docker.credentials"
local engines = require "chamvi.sandbox.docker.engine"
local errors = require "chamvi.sandbox.errors"
local limits = require "chamvi.sandbox.docker.limits"
local reference = require "chamvi.sandbox.docker.reference"

local images = {}

local function unavailable(image, message, fields)
    local text = ("the image %s is not available: %s"):format(image, message)
    return nil, errors.sandbox("image_unavailable", text, fields)
end

-- Whether the engine has the image.
local function is_present(engine, image, signal)
    local path = "/images/" .. image:gsub("[^/:@]+", engines.escape) .. "/json"
    local answer, err = engine:request("GET", path, { signal = signal })
    if not answer then
        return nil, err
    end
    if answer.status == 200 or answer.status == 404 then
        return answer.status == 200
    end
    return nil, engine:failure("looking for the image", answer)
end

local function number(value)
    return type(value) == "number" and value or nil
end

-- What went wrong, in a line of a pull; the status was 200 before that was known.
local function failure_in(line)
    local detail = type(line.errorDetail) == "table" and line.errorDetail.message
    local message = type(detail) == "string" and detail or line.error
    return type(message) == "string" and message or nil
end

local function pull(engine, image, parts, given)
    local auth, err = credentials.header(parts.registry, given.registry_auth, given.signal)
    if err then
        return nil, err
    end
    if auth then
        engine:remember(auth, credentials.secrets(auth))
    end
    local failed
    local path = ("/images/create?fromImage=%s&tag=%s"):format(
        engines.escape(parts.repository), engines.escape(parts.tag))
    local answer
    answer, err = engine:lines("POST", path, {
        headers = { ["X-Registry-Auth"] = auth },
        timeout_ms = 0,
        idle_ms = limits.PULL_SILENCE,
        signal = given.signal,
    }, function(line)
        if type(line) ~= "table" then
            return
        end
        local failure = failure_in(line)
        failed = failed or failure and engine:redact(failure)
        local status = type(line.status) == "string" and line.status or "pulling"
        local layer = type(line.id) == "string" and line.id .. ": " or ""
        local progress = type(line.progressDetail) == "table" and line.progressDetail or {}
        given.on_event({
            phase = "pulling",
            message = engine:redact(layer .. status),
            current = number(progress.current),
            total = number(progress.total),
        })
    end)
    if not answer then
        return nil, err
    end
    if answer.body and answer.status >= 300 then
        return nil, engine:failure(("pulling the image %s"):format(image), answer, "image_unavailable")
    end
    if failed then
        return unavailable(image, "the pull failed: " .. failed, { detail = failed })
    end
    return true
end

---@class chamvi.ImageRequest
---@field pull "missing"|"always"|"never"
---@field registry_auth? table
---@field on_event fun(event: table)
---@field signal? chamvi.Signal

--- Has the image there, by the policy.
---@param engine chamvi.DockerEngine
---@param image string
---@param given chamvi.ImageRequest
---@return true|nil
---@return chamvi.Error? err `image_unavailable`, or what the engine's answer is
function images.ensure(engine, image, given)
    local parts = reference.parse(image)
    if not parts then
        return unavailable(image, "that is no reference to an image")
    end
    if given.pull == "always" then
        return pull(engine, image, parts, given)
    end
    local present, err = is_present(engine, image, given.signal)
    if err then
        return nil, err
    end
    if present then
        return true
    end
    if given.pull == "never" then
        return unavailable(image, 'the engine does not have it, and the option "pull" is "never"')
    end
    return pull(engine, image, parts, given)
end

return images
