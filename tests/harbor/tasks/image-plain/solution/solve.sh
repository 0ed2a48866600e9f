#!/bin/bash
set -eo pipefail
cat note.txt > /answer.txt
