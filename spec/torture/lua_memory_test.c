/*
 * The module's C code in a Lua whose allocator fails: once, where Lua collects and tries again, and
 * from then on, where it raises. Nothing may crash or leak, and the state must work on.
 *
 * Built once for each Lua; CORE is the path of its core.so.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "support/scratch.h"

/* No scenario takes memory that often; past this, the test does not end by itself. */
#define CALLS_MAX 100000

struct memory {
    unsigned long blocks; /* in use */
    unsigned long calls;  /* that take memory */
    unsigned long fail_from;
    bool once;
    bool struck;
};

static lua_CFunction open_core;
static char folder[PATH_MAX];

static void *allocate(void *context, void *old, size_t old_size, size_t size)
{
    struct memory *memory = context;
    if (old == NULL)
        old_size = 0; /* it is a type then: lua_Alloc */
    if (size > old_size) {
        memory->calls++;
        bool fails = memory->fail_from != 0 && (memory->once ? memory->calls == memory->fail_from
                                                             : memory->calls >= memory->fail_from);
        memory->struck = memory->struck || fails;
        if (fails)
            return NULL;
    }
    memory->blocks += (old == NULL && size > 0) - (unsigned long)(old != NULL && size == 0);
    if (size > 0)
        return realloc(old, size);
    free(old);
    return NULL;
}

static bool is_out_of_memory(lua_State *L, int status)
{
    const char *message = lua_tostring(L, -1);
    return status == LUA_ERRMEM ||
           (message != NULL && strstr(message, "not enough memory") != NULL);
}

/* A state with the standard libraries and `folder`, and the chunk on its stack. */
static lua_State *make_state(struct memory *memory, const char *chunk)
{
    lua_State *L = lua_newstate(allocate, memory);
    if (L == NULL)
        return NULL;
    luaL_openlibs(L);
    lua_pushcfunction(L, open_core);
    lua_setglobal(L, "open_core");
    lua_pushstring(L, folder);
    lua_setglobal(L, "folder");
    if (luaL_loadstring(L, chunk) != 0)
        fail_msg("%s", lua_tostring(L, -1));
    return L;
}

/* Guards that were left to themselves. */
static void reap_all(void)
{
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        continue;
}

/* Runs the chunk with its allocation `nth` failing; false when it has fewer. */
static bool run_once(const char *prelude, const char *chunk, unsigned long nth, bool once)
{
    struct memory memory = {0};
    lua_State *L = make_state(&memory, chunk);
    assert_non_null(L);
    if (luaL_dostring(L, prelude) != 0)
        fail_msg("%s", lua_tostring(L, -1));
    lua_settop(L, 1);
    lua_pushvalue(L, 1);
    memory.calls = 0;
    memory.once = once;
    memory.fail_from = nth;
    int status = lua_pcall(L, 0, 0, 0);
    memory.fail_from = 0;
    if (status != 0 && (!memory.struck || !is_out_of_memory(L, status)))
        fail_msg("allocation %lu: %s", nth, lua_tostring(L, -1));
    lua_settop(L, 1);
    if (lua_pcall(L, 0, 0, 0) != 0)
        fail_msg("behind the failed allocation %lu: %s", nth, lua_tostring(L, -1));
    lua_close(L);
    assert_int_equal(memory.blocks, 0);
    return memory.struck;
}

static void run_all(const char *prelude, const char *chunk)
{
    for (int once = 0; once <= 1; once++) {
        int descriptors = scratch_descriptors();
        unsigned long nth = 1;
        while (run_once(prelude, chunk, nth, once != 0) && nth < CALLS_MAX)
            nth++;
        assert_in_range(nth, 2, CALLS_MAX - 1);
        reap_all();
        assert_int_equal(scratch_descriptors(), descriptors);
    }
}

/* ---- scenarios ------------------------------------------------------------------------------ */

#define OPENED "core = open_core()"

static void loads(void **state)
{
    (void)state;
    run_all("", "core = open_core(); assert(core.version)");
}

static void encodes_and_decodes_json(void **state)
{
    (void)state;
    run_all(OPENED, "local text = '{\"a\":[1,2.5,true,null,\"x\",{\"b\":{}}],\"c\":\"'.."
                    "('y'):rep(300)..'\"}'\n"
                    "local value = assert(core.json_decode(text))\n"
                    "assert(value.a[6].b and value.c == ('y'):rep(300))\n"
                    "assert(#core.json_encode(value) == #text)\n"
                    "assert(core.json_decode('[') == nil)\n"
                    "assert(core.json_encode({ core.json_encode }) == nil)\n");
}

static void checks_by_rules(void **state)
{
    (void)state;
    run_all(OPENED, "assert(core.normalize_repo('https://github.com/a/b'))\n"
                    "assert(core.normalize_repo('http://x') == nil)\n"
                    "assert(core.normalize_repo(1) == nil)\n"
                    "assert(core.check_git_ref('main') and not core.check_git_ref('..'))\n"
                    "assert(core.workspace_path('a/../b') and not core.workspace_path('..'))\n"
                    "assert(core.parse_cpu('500m') == 0.5 and core.parse_memory('1Ki') == 1024)\n"
                    "assert(core.parse_cpu('x') == nil and core.parse_memory({}) == nil)\n"
                    "assert(core.check_env('A', 'b') and not core.check_env('=', ''))\n"
                    "assert(core.uuid() ~= core.uuid() and core.now_ms() > 0)\n");
}

static void collects_output(void **state)
{
    (void)state;
    run_all(OPENED, "local collector = core.create_output_collector(1000)\n"
                    "for i = 1, 20 do collector:write(('z'):rep(i * 10)) end\n"
                    "assert(#collector:text() <= 1000 and collector.truncated)\n");
}

static void reads_records(void **state)
{
    (void)state;
    run_all(OPENED, "local records = assert(core.records(folder))\n"
                    "assert(#records == 3 and #records[1].text == 5)\n"
                    "assert(not core.record_owned(folder, records[1].id))\n"
                    "assert(#core.records(folder .. '/none') == 0)\n");
}

/* Waits for everything that was begun; what it brings is returned by id. */
#define DRIVE                                                                                      \
    "function drive(host, count)\n"                                                                \
    "    local ended = {}\n"                                                                       \
    "    while count > 0 do\n"                                                                     \
    "        assert(host:step(10000))\n"                                                           \
    "        local function take(id, what, ...)\n"                                                 \
    "            if id == nil then return false end\n"                                             \
    "            if what ~= 'output' then ended[id] = { what, ... } count = count - 1 end\n"       \
    "            return true\n"                                                                    \
    "        end\n"                                                                                \
    "        while take(host:next()) do end\n"                                                     \
    "    end\n"                                                                                    \
    "    return ended\n"                                                                           \
    "end\n"

static void runs_timers(void **state)
{
    (void)state;
    run_all(OPENED "\n" DRIVE, "local host = assert(core.open())\n"
                               "assert(host:check() and host:pollfd() and host:events() == 'r')\n"
                               "local id = assert(host:timer(0))\n"
                               "local other = assert(host:timer(100000))\n"
                               "assert(host:abort(other, 'closed', 'over'))\n"
                               "local ended = drive(host, 2)\n"
                               "assert(ended[id][1] == 'timer' and ended[other][2] == 'closed')\n"
                               "host:close()\n");
}

/* With a supervisor; a host that the failure has left behind is collected with its workspace. */
static void runs_commands(void **state)
{
    (void)state;
    run_all(
        OPENED "\n" DRIVE,
        "local host = assert(core.open())\n"
        "local name = core.uuid()\n"
        "local workspace, id = assert(host:launch{ base = folder .. '/base', names = { name },\n"
        "    env = { 'PATH=/bin:/usr/bin' }, create = true })\n"
        "assert(drive(host, 1)[id][1] == 'ready')\n"
        "local one = assert(host:exec(workspace, { 'cat' }, '', 60000, 100, 'input', true))\n"
        "local two = assert(host:exec(workspace, { 'none' }, '', 60000, 100))\n"
        "local write = assert(host:write_file(workspace, 'f', 'content'))\n"
        "local ended = drive(host, 3)\n"
        "assert(ended[one][2].stdout == 'input' and ended[two][2].exit_code == 127)\n"
        "assert(ended[write][1] == 'written')\n"
        "local read = assert(host:read_file(workspace, 'f', 100))\n"
        "assert(drive(host, 1)[read][2] == 'content')\n"
        "local removal = assert(host:remove(workspace))\n"
        "assert(drive(host, 1)[removal][1] == 'removed')\n"
        "host:close()\n");
}

static int set_up(void **state)
{
    (void)state;
    void *core = dlopen(CORE, RTLD_NOW | RTLD_LOCAL);
    if (core == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return -1;
    }
    *(void **)&open_core = dlsym(core, "luaopen_chamvi_sandbox_core");
    scratch_make(folder, true);
    int dir = scratch_open(folder);
    fchmodat(dir, ".", 0755, 0);
    for (char first = 'a'; first <= 'c'; first++) {
        char name[] = "x0112233-4455-6677-8899-aabbccddeeff.json";
        name[0] = first;
        scratch_file(dir, name, "text\n");
    }
    close(dir);
    return open_core == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads),           cmocka_unit_test(encodes_and_decodes_json),
        cmocka_unit_test(checks_by_rules), cmocka_unit_test(collects_output),
        cmocka_unit_test(reads_records),   cmocka_unit_test(runs_timers),
        cmocka_unit_test(runs_commands),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
