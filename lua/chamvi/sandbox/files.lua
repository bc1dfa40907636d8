-- What `read_file` and `write_file` of every workspace have in common: the checks of what they are given,
-- and their errors in words that tell a model what to do.

local compat = require "chamvi.sandbox.compat"
local constants = require "chamvi.sandbox.constants"
local errors = require "chamvi.sandbox.errors"

local files = {}

local PATH_SHOWN_BYTES = 200

-- By code, for a read and for a write; %s is the path. Other errors are not about the file and stay as they are.
local MESSAGES = {
    file_not_found = {
        'there is no file "%s": list its folder to see what is there',
        'the folder of "%s" was removed while the file was written: write it again',
    },
    not_a_file = {
        '"%s" is no regular file, or something on the way to it is no folder',
        '"%s" can\'t be written: it is no regular file, or something on the way to it is no folder',
    },
    file_too_large = {
        '"%s" has more than %d bytes: read parts of it with a command such as head, tail or sed',
        '"%s" can\'t be written: a file may have at most %d bytes',
    },
    not_utf8 = { '"%s" is no UTF-8 text: look at it with a command such as od, strings or iconv' },
    outside_workspace = {
        '"%s" leads out of the workspace by a link: only files inside it can be read',
        '"%s" leads out of the workspace by a link: only files inside it can be written',
    },
    permission_denied = {
        '"%s" can\'t be read: permission denied; ls -l shows its owner and mode',
        '"%s" can\'t be written: permission denied; ls -ld shows the owner and mode of its folder',
    },
    no_space = {
        '"%s" can\'t be read: no space is left on the disk or in the quota',
        '"%s" can\'t be written: no space is left on the disk or in the quota; delete what is not needed',
    },
    file_failed = { '"%s" can\'t be read', '"%s" can\'t be written' },
}

local function shown(path)
    path = path:gsub("%c", "?")
    return #path > PATH_SHOWN_BYTES and compat.cut(path, PATH_SHOWN_BYTES) .. "..." or path
end

-- The error `code` about `path`; `detail` is what the system said.
local function file_error(code, path, writes, detail)
    local messages = MESSAGES[code]
    local message = (messages[writes and 2 or 1]):format(shown(path), constants.FILE_MAX_BYTES)
    if code == "file_failed" and detail then
        message = message .. ": " .. detail
    end
    return errors.sandbox(code, message, { detail = detail })
end

--- Refuses a path that can only name a folder, which the path without its end might not.
---@param path string a valid one
---@return true|nil
---@return chamvi.Error? err
function files.check_names_file(path)
    if path:find("/%.?%.?$") then
        return nil, errors.sandbox("not_a_file", ('"%s" names a folder: give the path of a file'):format(shown(path)))
    end
    return true
end

--- Checks what `write_file` is to write.
---@param path string for the message
---@param content any
---@return true|nil
---@return chamvi.Error? err
function files.check_content(path, content)
    if type(content) ~= "string" then
        return nil, errors.validation("invalid_input", ("the content must be a string, got a %s"):format(type(content)))
    end
    if #content > constants.FILE_MAX_BYTES then
        return nil, file_error("file_too_large", path, true, ("the content has %d bytes"):format(#content))
    end
    return true
end

--- The error of a file operation, for a model.
---@param err chamvi.Error with one of the stable codes
---@param path string as it was given
---@param writes boolean
---@return chamvi.Error
function files.error(err, path, writes)
    if err.code == "invalid_path" then
        return errors.validation("invalid_path", "the path, or a name in it, is longer than the file system allows")
    end
    if not MESSAGES[err.code] then
        return err
    end
    return file_error(err.code, path, writes, err.detail or err.message)
end

return files
