#!/bin/bash
[[ $(< /answer) == done ]]
echo $(( $? == 0 )) > /logs/verifier/reward.txt
