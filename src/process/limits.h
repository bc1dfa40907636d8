/* What a host tells every supervisor in its hello, and what the two sides expect of each other. */
#ifndef CV_PROCESS_LIMITS_H
#define CV_PROCESS_LIMITS_H

/* Output that may be under way on one stream: keeps it busy and every other answer prompt. */
#define CV_OUTPUT_CREDIT (256 * 1024)
/* Stdin that the supervisor buffers for one command. */
#define CV_STDIN_CREDIT (64 * 1024)
/* Requests for files that are under way on one stream; the rest waits in the host. */
#define CV_FILES_UNDER_WAY 16
/* A supervisor with work to do says so at least that often. */
#define CV_PING_MS 4000

#endif
