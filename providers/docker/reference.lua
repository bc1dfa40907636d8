-- References of images: [registry/]name[:tag][@digest].
-- https://github.com/distribution/reference/blob/main/reference.go, familiar names included.

local reference = {}

-- The key of Docker Hub in ~/.docker/config.json.
local HUB = "https://index.docker.io/v1/"

---@class chamvi.ImageReference
---@field repository string registry and name, for `fromImage`
---@field tag string the digest, else the tag, else "latest"
---@field registry string its key among credentials

--- Takes a reference apart.
---@param image string
---@return chamvi.ImageReference
function reference.parse(image)
    local name, digest = image:match("^(.-)@(.+)$")
    name = name or image
    local repository, tag = name:match("^(.+):([^/:]+)$")
    repository = repository or name
    local first = repository:match("^([^/]+)/")
    local is_host = first and (first:find("[.:]") or first == "localhost")
    local registry = is_host and first or HUB
    if registry == "docker.io" or registry == "index.docker.io" then
        registry = HUB
    end
    return { repository = repository, tag = digest or tag or "latest", registry = registry }
end

return reference
