#!/bin/bash
echo "$GREETING from $(pwd)" > answer.txt
./tool.sh >> answer.txt
