--- Tables of text: { title =, note =, header = {...}, rows = { {...}, ... } }, all cells strings.

local tables = {}

---@class bench.Table
---@field title string
---@field note? string
---@field header string[]
---@field rows string[][]

--- As aligned columns: the first to the left, the others to the right.
---@param given bench.Table
---@return string
function tables.text(given)
    local widths = {}
    local function measure(row)
        for i, cell in ipairs(row) do
            widths[i] = math.max(widths[i] or 0, utf8.len(cell))
        end
    end
    measure(given.header)
    for _, row in ipairs(given.rows) do
        measure(row)
    end
    local lines = { given.title }
    if given.note then
        lines[2] = given.note
    end
    local function add(row)
        local cells = {}
        for i, cell in ipairs(row) do
            local space = (" "):rep(widths[i] - utf8.len(cell))
            cells[i] = i == 1 and cell .. space or space .. cell
        end
        lines[#lines + 1] = (table.concat(cells, "  "):gsub("%s+$", ""))
    end
    add(given.header)
    for _, row in ipairs(given.rows) do
        add(row)
    end
    return table.concat(lines, "\n")
end

local function markdown_row(cells)
    local escaped = {}
    for i, cell in ipairs(cells) do
        escaped[i] = (cell:gsub("|", "\\|"))
    end
    return "| " .. table.concat(escaped, " | ") .. " |"
end

--- As a Markdown section.
---@param given bench.Table
---@return string
function tables.markdown(given)
    local lines = { "## " .. given.title, "" }
    if given.note then
        table.insert(lines, given.note)
        table.insert(lines, "")
    end
    table.insert(lines, markdown_row(given.header))
    local rule = { "---" }
    for i = 2, #given.header do
        rule[i] = "---:"
    end
    table.insert(lines, markdown_row(rule))
    for _, row in ipairs(given.rows) do
        table.insert(lines, markdown_row(row))
    end
    return table.concat(lines, "\n")
end

return tables
