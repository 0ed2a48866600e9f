#!/bin/bash
for last in 18 19 20; do
    timeout 5 bash -c "cat < /dev/tcp/192.0.2.$last/18097" 2> /dev/null && echo || echo refused
done > /answer
