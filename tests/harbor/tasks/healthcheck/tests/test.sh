#!/bin/bash
if [[ $(< /tmp/answer) == "serve user sleep infinity" ]] &&
    pgrep -f "sleep infinity" > /dev/null; then
    reward=1
else
    reward=0
fi
echo $reward > /logs/verifier/reward.txt
