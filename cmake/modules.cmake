# chamvi.sandbox.core, once for each Lua; the staged trees that `require` can use without an install;
# and the installation.
#
# A stage, build/stage/<abi>, holds chamvi/sandbox/: core.so, the supervisor beside it, and links to
# the Lua sources. providers/<name> becomes chamvi/sandbox/<name>.

find_package(PkgConfig)

# LuaRocks builds for one Lua, names its headers and says where files go; see rockspec/.
set(CHAMVI_LUA_INCLUDE_DIR "" CACHE PATH "Build for this Lua's headers only, instead of both Lua's")
set(CHAMVI_INSTALL_LUADIR "" CACHE PATH "With CHAMVI_LUA_INCLUDE_DIR: where Lua sources go")
set(CHAMVI_INSTALL_LIBDIR "" CACHE PATH "With CHAMVI_LUA_INCLUDE_DIR: where C modules go")

chamvi_layer_files(lua "*.c" module_sources)
chamvi_layer_folder(lua module_includes)
chamvi_layer_needs(lua module_needs)
file(GLOB provider_folders CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/providers/*)

function(chamvi_module abi include_dirs lua_destination library_destination)
    set(target chamvi_core_${abi})
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
    file(STRINGS ${CHAMVI_LUA_INCLUDE_DIR}/lua.h version REGEX "define LUA_VERSION_NUM")
    if(EXISTS ${CHAMVI_LUA_INCLUDE_DIR}/luajit.h)
        set(abi luajit)
    elseif(version MATCHES "504")
        set(abi lua5.4)
    else()
        message(FATAL_ERROR "${CHAMVI_LUA_INCLUDE_DIR}: neither Lua 5.4 nor LuaJIT")
    endif()
    chamvi_module(${abi} ${CHAMVI_LUA_INCLUDE_DIR}
        ${CHAMVI_INSTALL_LUADIR} ${CHAMVI_INSTALL_LIBDIR})
else()
    pkg_search_module(LUA54 REQUIRED lua5.4 lua-5.4 lua54)
    pkg_search_module(LUAJIT REQUIRED luajit)
    chamvi_module(lua5.4 "${LUA54_INCLUDE_DIRS}" share/lua/5.4 lib/lua/5.4)
    chamvi_module(luajit "${LUAJIT_INCLUDE_DIRS}" share/lua/5.1 lib/lua/5.1)
    # For editors: the definitions that LuaLS reads.
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/types DESTINATION share/chamvi-sandbox)
endif()
