#!/bin/bash
if [[ -e /one && $(< /two) == two ]]; then
    reward=1
else
    reward=0
fi
echo $reward > /logs/verifier/reward.txt
