#!/bin/bash
# Goes on after its command, and holds the command's output open.
setsid bash -c 'while sleep 0.1; do date +%N > /tmp/beat; done' &
