-- Takes the wrapper's reports out of a stream. A report is: RS, the exec's mark, a space, its text, RS (0x1E).
-- What belongs to the stream goes on at once, but for bytes at the end of a chunk that may begin a report.

local filter = {}

local RS = "\30"
-- The wrapper writes a report in one write of at most PIPE_BUF bytes. Longer ones are nobody's.
local REPORT_MAX_BYTES = 4096

---@class chamvi.ReportFilter
local Filter = {}
Filter.__index = Filter

--- A filter for one stream.
---@param mark string
---@param on_bytes fun(bytes: string) gets the stream without reports, never an empty string
---@param on_report fun(text: string) gets each report, in its place between the bytes
---@return chamvi.ReportFilter
function filter.new(mark, on_bytes, on_report)
    return setmetatable({
        start = RS .. mark .. " ",
        on_bytes = on_bytes,
        on_report = on_report,
        held = "", -- a part of `start`, or a report from its text on
        in_report = false,
    }, Filter)
end

-- Where the bytes at the end begin that may become `start`; past the end when there are none.
local function find_beginning(self, data, from)
    local start = self.start
    local at = data:find(RS, math.max(from, #data - #start + 2), true)
    while at and data:sub(at) ~= start:sub(1, #data - at + 1) do
        at = data:find(RS, at + 1, true)
    end
    return at or #data + 1
end

local function emit(self, data, from, to)
    if from <= to then
        self.on_bytes(data:sub(from, to))
    end
end

-- Takes the report that goes on at `from`. Returns where the stream goes on, nil when the report does.
local function take_report(self, data, from)
    local stop = data:find(RS, from, true)
    if (stop or #data) - from > REPORT_MAX_BYTES then
        self.in_report = false
        return from + REPORT_MAX_BYTES
    end
    if not stop then
        self.held = data:sub(from)
        return nil
    end
    self.in_report = false
    self.on_report(data:sub(from, stop - 1))
    return stop + 1
end

---@param chunk string
function Filter:write(chunk)
    local data, from = self.held .. chunk, 1
    self.held = ""
    while from do
        if self.in_report then
            from = take_report(self, data, from)
        else
            local at, last = data:find(self.start, from, true)
            if at then
                emit(self, data, from, at - 1)
                self.in_report, from = true, last + 1
            else
                at = find_beginning(self, data, from)
                emit(self, data, from, at - 1)
                self.held, from = data:sub(at), nil
            end
        end
    end
end

--- The stream is over: what looked like the beginning of a report was none. Half a report is dropped.
function Filter:finish()
    local held = self.held
    self.held = ""
    if not self.in_report then
        emit(self, held, 1, #held)
    end
end

return filter
