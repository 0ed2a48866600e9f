#!/bin/sh
[ "$(cat /answer)" = done ] && reward=1
echo ${reward:-0} > /logs/verifier/reward.txt
