# chamvi.sandbox.core, once for each Lua; the staged trees that `require` can use without an install;
# and the installation.
#
# A stage, build/stage/<abi>, holds chamvi/sandbox/: core.so, the supervisor beside it, and links to
# the Lua sources. providers/<name> becomes chamvi/sandbox/<name>.

find_package(PkgConfig)

# LuaRocks builds for one Lua, names its headers and says where files go; see rockspec/.
set(CHAMVI_LUA_INCLUDE_DIR "" CACHE STRING "Build for this Lua's headers only, instead of both Lua's")
set(CHAMVI_INSTALL_LUADIR "" CACHE STRING
    "With CHAMVI_LUA_INCLUDE_DIR: where Lua sources go; empty: share/lua/<version>")
set(CHAMVI_INSTALL_LIBDIR "" CACHE STRING
    "With CHAMVI_LUA_INCLUDE_DIR: where C modules go; empty: lib/lua/<version>")
set(CHAMVI_INSTALL_DATADIR share/chamvi-sandbox CACHE STRING "Where types/ and examples/ go")

chamvi_layer_files(lua "*.c" module_sources)
chamvi_layer_folder(lua module_includes)
chamvi_layer_needs(lua module_needs)
file(GLOB provider_folders CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/providers/*)

function(chamvi_module abi include_dirs)
    set(target chamvi_core_${abi})
    set(version 5.4)
    if(abi STREQUAL luajit)
        set(version 5.1)
    endif()
    set(lua_destination share/lua/${version})
    set(library_destination lib/lua/${version})
    if(CHAMVI_LUA_INCLUDE_DIR AND CHAMVI_INSTALL_LUADIR)
        set(lua_destination ${CHAMVI_INSTALL_LUADIR})
    endif()
    if(CHAMVI_LUA_INCLUDE_DIR AND CHAMVI_INSTALL_LIBDIR)
        set(library_destination ${CHAMVI_INSTALL_LIBDIR})
    endif()
    set(staged ${PROJECT_BINARY_DIR}/stage/${abi}/chamvi/sandbox)

    # No liblua among the libraries: the Lua that loads the module has those symbols.
    add_library(${target} MODULE ${module_sources})
    target_include_directories(${target} PRIVATE ${module_includes})
    target_include_directories(${target} SYSTEM PRIVATE ${include_dirs})
    target_compile_definitions(${target} PRIVATE CV_VERSION="${PROJECT_VERSION}")
    target_link_libraries(${target} PRIVATE ${module_needs})
    set(exports ${PROJECT_SOURCE_DIR}/cmake/core.map)
    # Never unloaded: a look-up of libcurl's that was left alone may still run when the state closes.
    target_link_options(${target} PRIVATE
        -Wl,--version-script=${exports} -Wl,-z,relro -Wl,-z,now -Wl,-z,nodelete)
    set_target_properties(${target} PROPERTIES
        PREFIX "" OUTPUT_NAME core SUFFIX .so
        LINK_DEPENDS ${exports}
        LIBRARY_OUTPUT_DIRECTORY ${staged})

    add_custom_target(stage_${abi} ALL
        COMMAND ${CMAKE_COMMAND} -D SOURCE=${PROJECT_SOURCE_DIR} -D STAGED=${staged}
            -D SUPERVISOR=${CHAMVI_SUPERVISOR} -P ${PROJECT_SOURCE_DIR}/cmake/stage.cmake
        COMMENT "" VERBATIM)
    add_dependencies(stage_${abi} supervisor)

    install(TARGETS ${target} DESTINATION ${library_destination}/chamvi/sandbox)
    install(PROGRAMS ${CHAMVI_SUPERVISOR} DESTINATION ${library_destination}/chamvi/sandbox)
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/lua/ DESTINATION ${lua_destination}
        FILES_MATCHING PATTERN "*.lua")
    foreach(folder IN LISTS provider_folders)
        get_filename_component(name ${folder} NAME)
        install(DIRECTORY ${folder}/ DESTINATION ${lua_destination}/chamvi/sandbox/${name}
            FILES_MATCHING PATTERN "*.lua")
    endforeach()
endfunction()

if(CHAMVI_LUA_INCLUDE_DIR)
    set(include_dirs ${CHAMVI_LUA_INCLUDE_DIR})
    if(NOT EXISTS ${include_dirs}/lua.h)
        message(FATAL_ERROR "CHAMVI_LUA_INCLUDE_DIR: there is no lua.h in ${include_dirs}")
    endif()
    file(STRINGS ${include_dirs}/lua.h version REGEX "define[ \t]+LUA_VERSION_NUM")
    if(version MATCHES "504")
        chamvi_module(lua5.4 "${include_dirs}")
    elseif(version MATCHES "501")
        # Debian's LuaRocks names the headers of Lua 5.1, whose paths LuaJIT shares: take LuaJIT's own.
        if(NOT EXISTS ${include_dirs}/luajit.h)
            pkg_search_module(LUAJIT REQUIRED luajit)
            set(include_dirs ${LUAJIT_INCLUDE_DIRS})
        endif()
        chamvi_module(luajit "${include_dirs}")
    else()
        message(FATAL_ERROR "CHAMVI_LUA_INCLUDE_DIR: neither Lua 5.4 nor LuaJIT in ${include_dirs}")
    endif()
else()
    pkg_search_module(LUA54 REQUIRED lua5.4 lua-5.4 lua54)
    pkg_search_module(LUAJIT REQUIRED luajit)
    chamvi_module(lua5.4 "${LUA54_INCLUDE_DIRS}")
    chamvi_module(luajit "${LUAJIT_INCLUDE_DIRS}")
    # LuaRocks copies these by itself.
    install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
        DESTINATION share/doc/chamvi-sandbox)
endif()

# types/ is what LuaLS reads.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/types DESTINATION ${CHAMVI_INSTALL_DATADIR}
    FILES_MATCHING PATTERN "*.lua")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CHAMVI_INSTALL_DATADIR})
