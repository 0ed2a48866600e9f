#!/bin/bash
if [[ $(cat /answer.txt) == "a loose file of the task" ]] &&
    [[ -x tool.sh ]] &&
    [[ $(readlink link) == note.txt ]]; then
    reward=1
else
    reward=0
fi
echo $reward > /logs/verifier/reward.txt
