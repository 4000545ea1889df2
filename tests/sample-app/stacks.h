/* Samples of the main thread's callstack, by the sample app itself. */
#ifndef SAMPLE_APP_STACKS_H
#define SAMPLE_APP_STACKS_H

/* Starts the sampler; the main thread calls it before its first frame. */
void stacks_start(void);

/* The main thread begins a frame. */
void stacks_frame_begins(void);

/* The main thread has made its frame. */
void stacks_frame_ends(void);

/* Ends the sampler; the main thread calls it. */
void stacks_stop(void);

#endif
