/* One layout of folders, files and links, and what every path in it should give. */
#ifndef CV_SPEC_BENEATH_LAYOUT_H
#define CV_SPEC_BENEATH_LAYOUT_H

#include "support/beneath_place.h"

static inline void make_layout(void)
{
    int root = place.root.fd;
    scratch_file(root, "f", "root");
    scratch_folder(root, "dir", 0755);
    scratch_file(root, "dir/f", "dir");
    scratch_folder(root, "dir/sub", 0755);
    scratch_file(root, "dir/sub/f", "sub");
    scratch_folder(root, "...", 0755);
    scratch_file(root, ".../..f", "dots");
    scratch_link(root, "to_file", "f");
    scratch_link(root, "to_dir", "dir");
    scratch_link(root, "to_dir_slash", "dir/");
    scratch_link(root, "to_here", ".");
    scratch_link(root, "through_up", "dir/sub/../f");
    scratch_link(root, "dir/back", "../f");
    scratch_link(root, "dir/sub/back", "../../dir/back");
    scratch_link(root, "dir/out", "../../outside/f");
    scratch_link(root, "dir/out_dir", "../../outside");
    scratch_link(root, "up", "..");
    scratch_link(root, "out_and_in", "../root/f");
    scratch_link(root, "etc", "/etc");
    scratch_link(root, "passwd", "/etc/passwd");
    scratch_link(root, "dangling", "nothing");
    scratch_link(root, "dangling_far", "none/thing");
    scratch_link(root, "loop", "loop");
    scratch_link(root, "loop_a", "loop_b");
    scratch_link(root, "loop_b", "./loop_a");
    scratch_link(root, "file_slash", "f/");
    link_to_path("abs_file", "/dir/f");
    link_to_path("abs_root", "");
    link_to_path("abs_root_slash", "///");
    link_to_path("abs_up", "/../outside/f");
    link_to_path("abs_in_and_up", "/dir/../f");
    link_to_path("abs_near", "x/f");
    link_to_path("dir/sub/abs", "/to_dir/f");
    scratch_link(root, "alias_dir", "/workspace/dir");
    scratch_link(root, "alias_root", "/workspace");
    scratch_link(root, "alias_up", "/workspace/..");
    scratch_link(root, "alias_near", "/workspaces/f");
    scratch_link(root, "alias_short", "/work");
    scratch_link(root, "alias_twice", "/workspace/alias_dir/f");
    scratch_link(root, "alias_dangling", "/workspace/nothing");
    scratch_link(root, "slash", "/");
    scratch_link(root, "link1", "f");
    for (int i = 2; i <= 41; i++) {
        char name[16], target[16];
        snprintf(name, sizeof name, "link%d", i);
        snprintf(target, sizeof target, "link%d", i - 1);
        scratch_link(root, name, target);
    }
}

/* What opening a path gives: the content of a file, "/" for a folder, or an errno. */
static const struct {
    const char *path;
    const char *content;
    int errnum;
} table[] = {
    {"f", "root", 0},
    {"./f", "root", 0},
    {".//.///f", "root", 0},
    {"", "/", 0},
    {".", "/", 0},
    {"./", "/", 0},
    {"dir", "/", 0},
    {"dir/", "/", 0},
    {"dir//", "/", 0},
    {"dir/.", "/", 0},
    {"dir/f", "dir", 0},
    {"dir//sub///f", "sub", 0},
    {"dir/..", "/", 0},
    {"dir/../f", "root", 0},
    {"dir/sub/../../dir/sub/../f", "dir", 0},
    {".../..f", "dots", 0},
    {"..", NULL, EXDEV},
    {"../f", NULL, EXDEV},
    {"../root/f", NULL, EXDEV},
    {"dir/../..", NULL, EXDEV},
    {"dir/sub/../../../f", NULL, EXDEV},
    {"./..", NULL, EXDEV},
    {"none", NULL, ENOENT},
    {"none/../f", NULL, ENOENT},
    {"f/", NULL, ENOTDIR},
    {"f/.", NULL, ENOTDIR},
    {"f/..", NULL, ENOTDIR},
    {"f/x", NULL, ENOTDIR},
    /* links that stay inside */
    {"to_file", "root", 0},
    {"to_file/", NULL, ENOTDIR},
    {"to_file/x", NULL, ENOTDIR},
    {"file_slash", NULL, ENOTDIR},
    {"to_dir", "/", 0},
    {"to_dir/", "/", 0},
    {"to_dir/f", "dir", 0},
    {"to_dir//./f", "dir", 0},
    {"to_dir/../f", "root", 0},
    {"to_dir_slash", "/", 0},
    {"to_dir_slash/f", "dir", 0},
    {"to_here/to_here/f", "root", 0},
    {"through_up", "dir", 0},
    {"dir/back", "root", 0},
    {"dir/sub/back", "root", 0},
    {"to_dir/sub/back", "root", 0},
    {"to_dir/sub/..", "/", 0},
    /* links that lead out */
    {"dir/out", NULL, EXDEV},
    {"dir/out_dir", NULL, EXDEV},
    {"dir/out_dir/f", NULL, EXDEV},
    {"up", NULL, EXDEV},
    {"up/f", NULL, EXDEV},
    {"out_and_in", NULL, EXDEV},
    {"etc", NULL, EXDEV},
    {"etc/passwd", NULL, EXDEV},
    {"passwd", NULL, EXDEV},
    {"slash", NULL, EXDEV},
    {"slash/f", NULL, EXDEV},
    /* absolute links under the root's own path and its alias */
    {"abs_file", "dir", 0},
    {"abs_file/", NULL, ENOTDIR},
    {"abs_root", "/", 0},
    {"abs_root/f", "root", 0},
    {"abs_root/dir/f", "dir", 0},
    {"abs_root/abs_root/./f", "root", 0},
    {"abs_root_slash", "/", 0},
    {"abs_root_slash/f", "root", 0},
    {"dir/sub/abs", "dir", 0},
    {"to_dir/sub/abs", "dir", 0},
    {"abs_in_and_up", "root", 0},
    {"abs_up", NULL, EXDEV},
    {"abs_root/..", NULL, EXDEV},
    {"abs_near", NULL, EXDEV},
    {"alias_dir", "/", 0},
    {"alias_dir/f", "dir", 0},
    {"alias_dir/../f", "root", 0},
    {"alias_dir/sub/../../alias_dir/f", "dir", 0},
    {"alias_root", "/", 0},
    {"alias_root/", "/", 0},
    {"alias_twice", "dir", 0},
    {"alias_up", NULL, EXDEV},
    {"alias_near", NULL, EXDEV},
    {"alias_short", NULL, EXDEV},
    {"alias_dangling", NULL, ENOENT},
    /* links to nothing, links in a circle, many links */
    {"dangling", NULL, ENOENT},
    {"dangling/x", NULL, ENOENT},
    {"dangling_far", NULL, ENOENT},
    {"loop", NULL, ELOOP},
    {"loop/x", NULL, ELOOP},
    {"loop_a", NULL, ELOOP},
    {"link40", "root", 0},
    {"link41", NULL, ELOOP},
    {"alias_root/link39", "root", 0},
    {"alias_root/link40", NULL, ELOOP},
};

#endif
