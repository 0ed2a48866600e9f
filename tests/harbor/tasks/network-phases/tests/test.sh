#!/bin/bash
cat /answer
reach() { timeout 2 bash -c "cat < /dev/tcp/198.51.100.$1/18097" 2> /dev/null; }
[[ $(< /answer) == refused && $(reach 163) == 198.51.100.161 && $(reach 162) == "" ]]
echo $(( $? == 0 )) > /logs/verifier/reward.txt
