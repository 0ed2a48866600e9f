#!/bin/bash
printf '%s|' "$FROM_FILE" "$ONLY_MAIN" > /answer
