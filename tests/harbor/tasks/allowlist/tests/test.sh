#!/bin/bash
cat /answer
[[ $(< /answer) == $'198.51.100.161\nrefused\n198.51.100.161' ]]
echo $(( $? == 0 )) > /logs/verifier/reward.txt
