#!/bin/bash
for last in 162 163 164; do
    timeout 5 bash -c "cat < /dev/tcp/198.51.100.$last/18097" 2> /dev/null && echo || echo refused
done > /answer
