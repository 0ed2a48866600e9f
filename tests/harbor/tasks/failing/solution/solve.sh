#!/bin/bash
echo wrong > /answer
exit 3
