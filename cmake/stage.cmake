# Makes the links of one stage: to the Lua sources and to the supervisor. Runs with every build, so
# that new files appear and links to deleted ones go. Usage:
#   cmake -D SOURCE=<project> -D STAGED=<stage>/chamvi/sandbox -D SUPERVISOR=<file> -P stage.cmake

cmake_minimum_required(VERSION 3.22)

set(wanted)

macro(stage_link source name)
    list(APPEND wanted ${name})
    set(link ${STAGED}/${name})
    set(target)
    if(IS_SYMLINK ${link})
        file(READ_SYMLINK ${link} target)
    endif()
    if(NOT target STREQUAL ${source})
        get_filename_component(folder ${link} DIRECTORY)
        file(MAKE_DIRECTORY ${folder})
        file(CREATE_LINK ${source} ${link} SYMBOLIC)
    endif()
endmacro()

macro(stage_folder folder prefix)
    file(GLOB_RECURSE files RELATIVE ${folder} ${folder}/*.lua)
    foreach(file IN LISTS files)
        stage_link(${folder}/${file} ${prefix}${file})
    endforeach()
endmacro()

stage_link(${SUPERVISOR} chamvi-supervisor)
stage_folder(${SOURCE}/lua/chamvi/sandbox "")
file(GLOB providers ${SOURCE}/providers/*)
foreach(provider IN LISTS providers)
    get_filename_component(name ${provider} NAME)
    stage_folder(${provider} ${name}/)
endforeach()

file(GLOB_RECURSE staged RELATIVE ${STAGED} ${STAGED}/*)
foreach(name IN LISTS staged)
    if(IS_SYMLINK ${STAGED}/${name} AND NOT name IN_LIST wanted)
        file(REMOVE ${STAGED}/${name})
    endif()
endforeach()
