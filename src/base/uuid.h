/* Random identifiers. */
#ifndef CV_BASE_UUID_H
#define CV_BASE_UUID_H

#define CV_UUID_SIZE 37

/*
 * Writes a random UUID, version 4 (RFC 9562, section 5.4), in lower case with its NUL. 0, or -1
 * with errno when the kernel has no randomness to give (getrandom(2)).
 */
int cv_uuid(char out[CV_UUID_SIZE]);

#endif
