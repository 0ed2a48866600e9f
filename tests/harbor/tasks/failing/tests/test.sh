#!/bin/bash
[[ $(< /answer) == right ]]
echo $(( $? == 0 )) > /logs/verifier/reward.txt
exit 1
